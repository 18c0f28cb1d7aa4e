"""Unit tests of headstream.broker.commands.snapshot."""

from __future__ import annotations

import io
import zipfile

import pytest

from headstream.core.wire.commands.system import Snapshot, SnapshotCompression, SnapshotType
from tests.support.server.servers import Peer


@pytest.mark.parametrize("compression", list(SnapshotCompression))
def test_snapshot_can_be_unpacked_when_it_is_made_in_any_compression(peer: Peer, compression: SnapshotCompression) -> None:
    everything = zipfile.ZipFile(io.BytesIO(peer.ask(Snapshot(compression, (SnapshotType.ALL,)))))
    assert len(everything.namelist()) == 6
    alone = zipfile.ZipFile(io.BytesIO(peer.ask(Snapshot(compression, (SnapshotType.TEST,)))))
    assert {name: alone.read(name) for name in alone.namelist()} == {"test.txt": b"test\n"}
