"""Logs that cannot be used: connect() and the command line say which file, where, what it means and what to do."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import headstream as hs
from tests.support.cli_inputs import run


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "log"
    with hs.connect(root.as_uri()) as log:
        log.create_topic("shop/orders")
        with log.producer("shop/orders") as producer:
            producer.send(b"order 1")
    return root


def make_something_else(root: Path) -> None:
    (root / "headstream.json").unlink()
    (root / "letter.txt").write_text("mine")


def make_newer(root: Path) -> None:
    marker = root / "headstream.json"
    marker.write_text(json.dumps({**json.loads(marker.read_text()), "format": 99}))


def cut_marker(root: Path) -> None:
    (root / "headstream.json").write_bytes((root / "headstream.json").read_bytes()[:20])


def cut_catalog(root: Path) -> None:
    catalog = root / "catalog.sqlite"
    catalog.write_bytes(catalog.read_bytes()[:5000])


def remove_catalog(root: Path) -> None:
    for path in root.glob("catalog.sqlite*"):
        path.unlink()


def flip_bit(root: Path) -> None:
    (path,) = root.glob("streams/*/*/1/*.log")
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


BAD = [
    (make_something_else, hs.NotALogError, "contains 'letter.txt' but no headstream.json", "Specify a log directory, or"),
    (make_newer, hs.LogVersionError, "format 99, but this version of Headstream reads 1", "Use the Headstream version that"),
    (cut_marker, hs.CorruptLogError, "the log's marker cannot be read", "Restore the file from a copy"),
    (cut_catalog, hs.CorruptLogError, "the catalog is damaged", "the messages are unaffected"),
    (remove_catalog, hs.CorruptLogError, "the log's catalog is missing", "Restore the file from a copy"),
    (flip_bit, hs.CorruptSendError, "offset 0 is damaged: the checksum does not match", "headstream verify"),
]


@pytest.mark.parametrize(("spoil", "kind", "what", "advice"), BAD, ids=[row[0].__name__ for row in BAD])
def test_a_log_that_cannot_be_used_says_what_and_where_and_what_to_do(
    root: Path, spoil: Callable[[Path], None], kind: type[hs.HeadstreamError], what: str, advice: str
) -> None:
    spoil(root)
    with pytest.raises(kind) as caught, hs.connect(root.as_uri()) as log:
        log.poll("shop/orders", 1, start=0)
    for text in (what, advice, str(root)):
        assert text in str(caught.value)
    said = " ".join(run("poll", "shop/orders", url=root.as_uri(), code=1).stderr.decode().split())
    assert what in said
    assert advice in said
    assert "Traceback" not in said
