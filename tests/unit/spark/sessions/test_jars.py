from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from headstream.errors import JarsError
from headstream.spark.sessions.jar_digests import JAR_DIGESTS
from headstream.spark.sessions.jar_sets import BROKER, SPARK, JarSet
from headstream.spark.sessions.jars import cache_folder, fetch, find

SPARK_FILES = [jar.file_name for jar in SPARK.jars]
BROKER_FILES = ["kafka_2.13-4.2.0.jar", "slf4j-api-1.7.36.jar"]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("HEADSTREAM_JARS", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for name in (*SPARK_FILES, *BROKER_FILES):  # what _put writes
        monkeypatch.setitem(JAR_DIGESTS, name, hashlib.sha256(b"jar " + name.encode()).hexdigest())
    return tmp_path / "headstream" / "jars"


def _put(folder: Path, names: list[str]) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_bytes(b"jar " + name.encode())
    return sorted(folder / name for name in names)


def _put_set(folder: Path, jar_set: JarSet, names: list[str]) -> list[Path]:
    paths = _put(folder / jar_set.folder_name, names)
    sizes = {path.name: path.stat().st_size for path in paths}
    (folder / jar_set.folder_name / "manifest.json").write_text(json.dumps({"set": jar_set.name, "files": sizes}))
    return paths


def test_cache_folder_is_under_the_users_cache(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache_folder() == root.parent
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert cache_folder() == Path("/home/somebody/.cache/headstream")


def test_find_returns_nothing_when_nothing_was_fetched(root: Path) -> None:
    assert find() is None
    assert find(BROKER) is None


def test_find_returns_a_whole_set(root: Path) -> None:
    paths = _put_set(root, SPARK, SPARK_FILES)
    assert find() == paths
    assert fetch() == paths  # nothing is fetched: there is no Java on the way


def test_find_does_not_take_a_set_when_a_file_is_missing_or_cut(root: Path) -> None:
    paths = _put_set(root, BROKER, BROKER_FILES)
    assert find(BROKER) == paths
    paths[1].write_bytes(b"")
    assert find(BROKER) is None
    paths[1].unlink()
    assert find(BROKER) is None


def test_find_takes_jars_that_were_put_there_by_hand(tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    by_hand = _put(tmp_path / "mine", [*SPARK_FILES])
    _put(tmp_path / "mine", ["another.jar"])
    assert find() is None
    monkeypatch.setenv("HEADSTREAM_JARS", str(tmp_path / "mine"))
    assert find() == by_hand
    assert fetch() == by_hand
    by_hand[0].unlink()
    assert find() is None


def test_find_takes_the_directory_named_before_the_environment(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _put_set(tmp_path / "one", SPARK, SPARK_FILES)
    two = _put_set(tmp_path / "two", SPARK, SPARK_FILES)
    monkeypatch.setenv("HEADSTREAM_JARS", str(tmp_path / "one"))
    assert find(SPARK, tmp_path / "two") == two


@pytest.mark.parametrize(("jar_set", "names"), [(SPARK, SPARK_FILES), (BROKER, BROKER_FILES)])
def test_find_refuses_a_jar_and_sets_it_aside_when_its_digest_is_another(root: Path, jar_set: JarSet, names: list[str]) -> None:
    paths = _put_set(root, jar_set, names)
    assert find(jar_set) == paths
    wrong = paths[-1]  # of the broker's jars, one that another depends on
    content = wrong.read_bytes()
    wrong.write_bytes(content[:-1] + b"!")  # of the same size
    aside = wrong.with_name(f"{wrong.name}.refused")
    with pytest.raises(JarsError, match=f"the jar {wrong.name} is not the jar") as raised:
        find(jar_set)
    assert str(aside) in str(raised.value)
    assert aside.read_bytes() == content[:-1] + b"!"
    assert find(jar_set) is None  # and the next fetch fetches the set anew


def test_find_refuses_a_jar_when_no_digest_is_known(root: Path) -> None:
    _put_set(root, BROKER, [*BROKER_FILES, "another-1.0.jar"])
    with pytest.raises(JarsError, match=r"another-1\.0\.jar .* its expected digest is unknown"):
        find(BROKER)


def test_find_leaves_a_wrong_jar_in_place_when_it_was_put_there_by_hand(root: Path, tmp_path: Path) -> None:
    by_hand = _put(tmp_path / "mine", SPARK_FILES)
    by_hand[2].write_bytes(b"another")
    with pytest.raises(JarsError, match=by_hand[2].name):
        find(SPARK, tmp_path / "mine")
    assert by_hand[2].read_bytes() == b"another"


def test_fetch_keeps_nothing_of_a_set_when_a_jar_that_came_has_another_digest(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def retrieve(jar_set: JarSet, work: Path, on_progress: object) -> Path:
        folder = work / "fetched"
        _put(folder, SPARK_FILES)
        (folder / SPARK_FILES[0]).write_bytes(b"another")
        return folder

    monkeypatch.setattr("headstream.spark.sessions.jars._retrieve", retrieve)
    with pytest.raises(JarsError, match=SPARK_FILES[0]):
        fetch()
    assert [path.name for path in root.iterdir()] == [f"{SPARK_FILES[0]}.refused"]


@pytest.mark.parametrize("manifest", ["", "[]", "{}", '{"files": 5}', '{"files": {"../../evil.jar": "x"}}', "\xff"])
def test_find_takes_a_broken_manifest_for_no_set(root: Path, manifest: str) -> None:
    _put_set(root, BROKER, ["kafka_2.13-4.2.0.jar"])
    (root / BROKER.folder_name / "manifest.json").write_text(manifest, encoding="latin-1")
    assert find(BROKER) is None


def test_fetch_says_where_when_the_folder_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(JarsError, match="cannot be written") as raised:
        fetch(tmp_path / "file")
    assert str(tmp_path / "file") in str(raised.value)
    assert "HEADSTREAM_JARS" in str(raised.value)
