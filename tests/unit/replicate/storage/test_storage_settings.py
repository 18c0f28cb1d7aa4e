"""[storage] and the environment: what each client of the store gets, and what no text shows."""

from __future__ import annotations

from typing import Any

import pytest

from headstream.errors import InvalidOptionError
from headstream.replicate.storage.s3 import S3Access
from headstream.replicate.storage.storage_settings import StorageSettings

KEYS = {"access_key_id": "AKIA1", "secret_access_key": "hidden"}


def make_access(**settings: Any) -> S3Access:
    return S3Access("lake", StorageSettings(**settings))


def test_settings_are_the_same_for_each_client() -> None:
    access = make_access(endpoint="http://minio:9000", region="eu-central-1", **KEYS)
    delta, store, hadoop = access.delta_options(), access.store_options(access.resolved(), 1), access.hadoop_settings()
    assert delta["aws_endpoint_url"] == store["config"]["endpoint"] == hadoop["fs.s3a.endpoint"] == "http://minio:9000"
    regions = delta["aws_region"], store["config"]["region"], hadoop["fs.s3a.endpoint.region"]
    assert regions == ("eu-central-1",) * 3
    secrets = delta["aws_secret_access_key"], store["config"]["secret_access_key"], hadoop["fs.s3a.secret.key"]
    assert secrets == ("hidden",) * 3
    assert delta["aws_allow_http"] == "true"
    assert store["client_options"] == {"allow_http": True}
    assert hadoop["fs.s3a.connection.ssl.enabled"] == "false"
    paths = delta["aws_virtual_hosted_style_request"], hadoop["fs.s3a.path.style.access"]
    assert paths == ("false", "true")
    assert hadoop["fs.s3.impl"] == "org.apache.hadoop.fs.s3a.S3AFileSystem"


def test_resolved_refuses_keys_of_the_section_with_a_token_of_the_environment() -> None:
    with pytest.raises(InvalidOptionError, match="AWS_SESSION_TOKEN in the environment belongs to other keys"):
        make_access(**KEYS).resolved({"AWS_SESSION_TOKEN": "token"})


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"endpoint": "minio:9000"}, "must be a URL"),
        ({"endpoint": "https://AKIA1:hidden@minio:9000"}, "only a host, a port and a path"),
        ({"access_key_id": "AKIA1"}, "secret_access_key is missing"),
        ({"secret_access_key": "hidden"}, "access_key_id is missing"),
        ({"session_token": "hidden"}, "session_token requires access_key_id"),
        ({"client_secret": "hidden"}, "requires a service principal"),
        ({"account_key": "hidden", "sas_token": "hidden"}, "several kinds of credentials"),
        ({"retry_us": -1}, "must not be negative"),
    ],
)
def test_settings_that_contradict_each_other_are_refused_without_credentials(settings: dict[str, Any], what: str) -> None:
    with pytest.raises(InvalidOptionError, match=what) as caught:
        StorageSettings(**settings)
    assert "hidden" not in str(caught.value)


def test_no_text_of_the_settings_has_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    access = make_access(session_token="a.token", **KEYS)
    refused = 'HTTP error\n\nDebug source:\nOs { kind: ConnectionRefused, message: "Connection refused" }'
    assert access.redact(refused) == "HTTP error: Connection refused"
    error = "Generic S3 error\n   \x1b[31m↳\x1b[0m 403: key AKIA1, hidden, a.token\n\nDebug source:\nGeneric { hidden }"
    assert access.redact(error) == "Generic S3 error: 403: key ***, ***, ***"
    assert not any(value in repr(access) + access.describe() for value in ("AKIA1", "hidden", "a.token"))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIA2")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "environment's")
    assert make_access().redact("the environment's AKIA2") == "the *** ***"
