"""The session of `replicate run`: its jars without a network, and its Java options."""

from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from headstream import spark
from headstream.cli.replicate import session

_OPTIONS = "spark.driver.extraJavaOptions"


def test_jars_that_cannot_be_fetched_are_left_out_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("HEADSTREAM_JARS", str(tmp_path / "file" / "jars"))
    assert session._available(["azure", "s3"]) == []
    assert [record.getMessage().partition(": ")[0] for record in caplog.records] == [
        "the jars of the set azure cannot be fetched, and without them Spark cannot write tables to this store",
        "the jars of the set s3 cannot be fetched, and without them Spark cannot write tables to this store",
    ]


@pytest.mark.parametrize(
    ("settings", "only_plans", "options"),
    [
        ({}, True, "-XX:TieredStopAtLevel=1"),
        ({"spark.master": "local[2]", _OPTIONS: "-Da=b"}, True, "-XX:TieredStopAtLevel=1 -Da=b"),
        ({"spark.master": "local-cluster[1,1,1024]"}, True, None),
        ({"spark.master": "yarn", _OPTIONS: "-Da=b"}, True, "-Da=b"),
        ({}, False, None),
    ],
)
def test_session_has_no_second_compiler_when_java_only_plans_on_one_machine(
    settings: dict[str, str], only_plans: bool, options: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[dict[str, str]] = []
    monkeypatch.setattr(spark, "session", lambda name, *, config, with_jars: started.append(config))
    monkeypatch.setattr(spark, "stop", lambda session: None)
    monkeypatch.delenv("SPARK_MASTER", raising=False)
    with session.open_session("test", settings, [], only_plans=only_plans):
        assert [config.get(_OPTIONS) for config in started] == [options]
