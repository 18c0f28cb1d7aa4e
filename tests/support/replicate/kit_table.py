"""A table `kit` of a schema `shop`, changes of it, and what is asked of any store that it is in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headstream.errors import ReplicateError
from headstream.replicate.codec import data_message, metadata_message
from headstream.replicate.storage.delta_places import open_table
from headstream.replicate.storage.places import StorePlace
from headstream.replicate.storage.store_files import StoreFiles
from headstream.replicate.tables.tables import table_path
from headstream.replicate.tables.target_owner import OWNER_FILE, Owner
from tests.support.replicate.pipeline_work import SECOND_US, Work
from tests.support.replicate.replicate_messages import make_change, make_table

KIT = make_table()
SHARED = ("shop", "kit")
METADATA = metadata_message(KIT)
MAINTAINED: dict[str, Any] = {"compact_every_us": SECOND_US, "vacuum_every_us": SECOND_US, "vacuum_kept_us": 0}


def change(number: int, **changed: Any) -> bytes:
    """Return a message with a change of `kit`."""
    return data_message(KIT, make_change(number, **changed))


def ids(work: Work, *, changes: bool = False) -> list[int]:
    """Return the ids of the rows of `kit`, or of its change table."""
    return sorted(row["id"] for row in work.rows(*SHARED, work.config.change_tables if changes else None))


def check_maintenance(work: Work, directory: Path) -> None:
    """Check that compaction and vacuum, with MAINTAINED, leave the owner and the needed files; close the work."""
    work.send(METADATA, change(1))
    for number in (2, 3):
        work.send(change(number))
        work.now_us += 10 * SECOND_US
        work.processor.sweep(last=True)
    table = open_table(table_path(work.config.tables, *SHARED))
    assert table is not None
    assert len(table.file_uris()) == 1
    assert ids(work) == [1, 2, 3]
    with pytest.raises(ReplicateError, match="another pipeline"):
        Owner("other", directory).claim(table_path(work.config.tables, *SHARED))
    work.close()


def check_table_name(work: Work, name: str) -> None:
    """Check that a table of that name is written and found again; close the work."""
    kit = make_table(schema="", table=name)
    work.send(metadata_message(kit), data_message(kit, make_change(1)))
    work.restart()
    work.send(data_message(kit, make_change(2)))
    assert work.processor.health.failing == {}
    assert sorted(row["id"] for row in work.rows("", name)) == [1, 2]
    assert isinstance(work.config.tables, StorePlace)
    assert StoreFiles(table_path(work.config.tables, "", name) / OWNER_FILE).read() is not None
    work.close()
