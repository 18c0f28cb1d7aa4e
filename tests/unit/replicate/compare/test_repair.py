"""The sequence and the messages of a repair."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

from headstream.replicate.codec import decode_envelope
from headstream.replicate.columns.loads import Loads
from headstream.replicate.columns.raw import RAW_SCHEMA, REPAIR_TOPIC
from headstream.replicate.compare.comparison import Difference, TableResult
from headstream.replicate.compare.repair import describe_repair, newest_sequence, sequence_after
from headstream.replicate.run.between_batches import repair_rows
from headstream.replicate.schemas.schemas import table_schema
from headstream.replicate.tables.table_memory import TableMemory, TableState
from headstream.replicate.tables.tables import TABLES_NAME
from headstream.testing import SourceDatabase

NEWEST = "20230321213416580000000000000000017"
NEXT = "20230321213416580000000000000000018"


def test_sequence_after_is_above_all_places_up_to_the_newest_and_below_each_later_change() -> None:
    assert sequence_after(NEWEST) == NEXT
    for place in (NEWEST, f"{NEWEST}.1690000000000000", f"{NEWEST}/.1690000000000000", f"{NEWEST},{NEXT}"):
        assert place < NEXT
    after_nine = sequence_after("20230321213416580000000000000000019")
    assert "20230321213416580000000000000000019" < after_nine < "20230321213416580000000000000000020"
    assert sequence_after("000000000153F2A0000000153F2FF00000F") == "000000000153F2A0000000153F2FF000010"
    assert ".9999999999999999" < sequence_after("") < "19700101000000000000000000000000000"


def test_newest_sequence_is_the_highest_change_or_deletion_that_the_state_has(tmp_path: Path) -> None:
    memory = TableMemory(tmp_path / TABLES_NAME)
    memory.keep(("SHOP", "orders"), TableState(loads=Loads(highest=NEWEST)))
    memory.keep(("SHOP", "lines"), TableState(loads=Loads(highest=NEWEST), newest_deletion=f"{NEXT}.1690000000000000"))
    memory.close()
    assert newest_sequence(tmp_path, ("SHOP", "orders")) == NEWEST
    assert newest_sequence(tmp_path, ("SHOP", "lines")) == NEXT
    assert newest_sequence(tmp_path, ("SHOP", "unknown")) == ""


def test_describe_repair_makes_one_message_per_row_that_can_be_repaired() -> None:
    metadata = next(each for each in SourceDatabase(1).tables() if each.lineage.table == "order_lines")
    schema = table_schema(metadata, avro=False)
    row = {"order_id": 1, "line": 2, "price": Decimal("1.50"), "gift": True, "product": None}
    row |= {"shipped": datetime(2026, 1, 31, 12, tzinfo=UTC)}
    result = TableResult("SHOP.order_lines", "SHOP.order_lines", newest=NEWEST)
    result.differences = [
        Difference("missing", {"order_id": 1, "line": 2}, source=row),
        Difference("extra", {"order_id": 1, "line": 3}, target={"price": None}, sequence=f"{NEXT}.1690000000000000"),
        Difference("unsettled", {"order_id": 1, "line": 4}),
        Difference("duplicate", {"order_id": 1, "line": 5}),
    ]
    arguments = json.loads(json.dumps(describe_repair(result, schema)))
    rows = repair_rows(arguments, 7, 1_000)
    assert rows.schema == RAW_SCHEMA
    assert set(rows["topic"].to_pylist()) == {REPAIR_TOPIC}
    assert rows["schema_id"].to_pylist() == [metadata.schema_id] * 2
    inserted, deleted = (decode_envelope(payload).message for payload in rows["payload"].to_pylist())
    assert isinstance(inserted, dict)
    assert isinstance(deleted, dict)
    assert (inserted["headers"]["operation"], deleted["headers"]["operation"]) == ("INSERT", "DELETE")
    assert {inserted["headers"]["changeSequence"], deleted["headers"]["changeSequence"]} == {sequence_after(NEXT)}
    assert inserted["data"] == {"order_id": "1", "line": "2", "price": "1.50", "gift": "true", "product": None,
                                "shipped": "2026-01-31 12:00:00.000000"}  # fmt: skip
    assert deleted["data"] == {"order_id": "1", "line": "3"}
    assert len(set(rows["offset"].to_pylist())) == 2
