from __future__ import annotations

from pathlib import Path

import pytest

from headstream.errors import JavaError
from headstream.spark.sessions import java
from headstream.spark.sessions.java import find_java, main

MODULES = "java.base@{0}\njava.logging@{0}\njdk.incubator.vector@{0}\n"


def _install(home: Path, answer: str, status: int = 0) -> Path:
    """Put a program that answers `--list-modules` as a Java of some version would."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\ntest \"$1\" = --list-modules || exit 9\ncat <<'END'\n{answer}END\nexit {status}\n")
    program.chmod(0o755)
    return program


@pytest.mark.parametrize("version", ["17.0.15", "21", "25-ea"])
def test_find_java_takes_java_home_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    program = _install(tmp_path / "home", MODULES.format(version))
    _install(tmp_path / "path", MODULES.format("18"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'path' / 'bin'}:/usr/bin:/bin")
    assert find_java() == java.Java(program, int(version[:2]))


def test_find_java_looks_on_the_path_when_there_is_no_java_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = _install(tmp_path, MODULES.format("18.0.1"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    assert find_java() == java.Java(program, 18)


@pytest.mark.parametrize(
    ("answer", "status", "said"),
    [
        (MODULES.format("11.0.2"), 0, "requires Java 17 or newer, but this is Java 11"),
        ("Unrecognized option: --list-modules\n", 1, "this version is older"),
        ("java.base@17.0.1\n", 0, "lacks the module jdk.incubator.vector"),
    ],
)
def test_find_java_says_what_is_wrong_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, status: int, said: str
) -> None:
    program = _install(tmp_path, answer, status)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaError, match=said) as raised:
        find_java()
    assert str(program) in str(raised.value)
    assert "Install" in str(raised.value)


def test_find_java_says_what_to_install_when_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JavaError, match="there is no Java on the PATH"):
        find_java()
    assert main() == 1
    assert "Install a full Java 17" in capsys.readouterr().err
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaError, match="JAVA_HOME contains no Java"):
        find_java()
