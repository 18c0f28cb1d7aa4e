"""Unit tests of headstream.replicate.storage.s3."""

from __future__ import annotations

import pytest

from tests.unit.replicate.storage.test_storage_settings import KEYS, make_access


def test_settings_of_aws_itself_have_no_endpoint_and_the_bucket_in_the_host() -> None:
    access = make_access(region="eu-west-1")
    assert access.delta_options()["aws_virtual_hosted_style_request"] == "true"
    assert not {"aws_endpoint_url", "aws_access_key_id"} & access.delta_options().keys()
    assert not {"fs.s3a.endpoint", "fs.s3a.access.key"} & access.hadoop_settings().keys()
    assert "the machine's role" in access.describe()


@pytest.mark.parametrize("retry_us", [0, 200_000, 1_000_000, 30_000_000, 3_600_000_000])
def test_spark_retries_for_as_long_as_the_other_clients(retry_us: int) -> None:
    hadoop = make_access(retry_us=retry_us).hadoop_settings()
    for kind in ("fs.s3a.retry", "fs.s3a.retry.throttle"):
        count, interval_ms = int(hadoop[f"{kind}.limit"]), int(hadoop[f"{kind}.interval"].removesuffix("ms"))
        waits_ms = [interval_ms * 2**number for number in range(1, count + 1)]  # Hadoop's exponentialBackoffRetry, on average
        assert retry_us / 1000 <= sum(waits_ms) <= retry_us / 1000 * 1.05 + 2
        assert waits_ms == [] or 50 <= waits_ms[0] <= 200
    assert hadoop["fs.s3a.attempts.maximum"] == "1", "the AWS client's own retries are within each of these"


def test_resolved_takes_from_the_environment_what_the_section_lacks() -> None:
    environment = {"AWS_ENDPOINT_URL": "http://a:1", "AWS_ENDPOINT_URL_S3": "http://b:1", "AWS_DEFAULT_REGION": "r"}
    environment |= {"AWS_ACCESS_KEY_ID": "AKIA2", "AWS_SECRET_ACCESS_KEY": "other", "AWS_SESSION_TOKEN": "token"}
    found = make_access(region="own").resolved(environment)
    assert (found.endpoint, found.region, found.access_key_id) == ("http://b:1", "own", "AKIA2")
    assert (found.secret_access_key, found.session_token) == ("other", "token")
    own = make_access(**KEYS).resolved({**environment, "AWS_SESSION_TOKEN": ""})
    assert (own.access_key_id, own.secret_access_key) == ("AKIA1", "hidden")
