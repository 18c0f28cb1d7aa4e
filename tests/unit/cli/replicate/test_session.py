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
    ("master", "given", "is_brief", "options"),
    [
        ("local[2]", "-Da=b", True, "-XX:TieredStopAtLevel=1 -Da=b"),
        ("local-cluster[1,1,1024]", "-Da=b", True, "-Da=b"),
        ("local[2]", "-Da=b", False, "-Da=b"),
    ],
)
def test_session_has_no_second_compiler_when_a_run_on_one_machine_is_brief(
    master: str, given: str, is_brief: bool, options: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark, "session", lambda name, *, config, with_jars: config)
    monkeypatch.setattr(spark, "stop", lambda session: None)
    with session.open_session("test", {"spark.master": master, _OPTIONS: given}, [], is_brief=is_brief) as config:
        assert config[_OPTIONS] == options  # type: ignore[index]
