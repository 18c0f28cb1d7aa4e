from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headstream.connect import connect
from headstream.core.codec.binary import decode_headers, encode_headers
from headstream.core.model.constructors import uint8
from headstream.core.model.headers import Headers
from headstream.replicate.columns.raw import RAW_SCHEMA
from headstream.replicate.parked.bounds import WaitingBounds
from headstream.replicate.parked.ledger import Ledger
from headstream.replicate.parked.parking import DEAD_LETTER_TOPIC, PARKED_TOPIC, Held, ParkingLot, Release
from headstream.replicate.settings.config import ReplicateConfig
from tests.support.crashes import fail_with

DELAYED = "replicate/delayed"
HEADERS = Headers([("attempt", uint8(3)), ("attempt", uint8(4))])


def raw(*offsets: int, schema_id: str | None = "A", reason: str | None = None, payload: bytes | None = b"data") -> pa.RecordBatch:
    rows = [
        {
            "topic": "cdc/data",
            "partition": 2,
            "offset": offset,
            "timestamp_us": 1_690_000_000_000_000,
            "key": b"k",
            "headers": encode_headers(HEADERS),
            "payload": payload,
            "schema_id": schema_id,
            "reason": reason,
        }
        for offset in offsets
    ]
    return pa.RecordBatch.from_pylist(rows, schema=RAW_SCHEMA)


class Lot:
    """A parking lot that can be left and opened again, as a restart does."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.open()

    def open(self) -> None:
        self.ledger = Ledger(self.directory / "ledger.sqlite")
        config = ReplicateConfig(
            source="file:///nowhere", topics=("cdc/data",), tables=self.directory / "tables", checkpoint=self.directory
        )
        self.parking = ParkingLot(self.directory, DELAYED, self.ledger, WaitingBounds(config, self.ledger))

    def restart(self) -> None:
        self.close()
        self.open()

    def close(self) -> None:
        self.parking.close()
        self.ledger.close()

    def count(self, topic: str) -> int:
        with connect(f"file://{self.directory / 'log'}") as log:
            return log.topic(topic).messages_count


def offsets(release: Release | None) -> list[int]:
    assert release is not None
    found: list[int] = release.messages["offset"].to_pylist()
    return found


def finish(lot: Lot, release: Release | None, **options: Any) -> None:
    assert release is not None
    lot.parking.finish_release(release, 9, **options)


def table(*batches: pa.RecordBatch) -> pa.Table:
    return pa.Table.from_batches(batches)


def test_parking_gives_messages_back_whole_when_their_schema_comes(tmp_path: Path) -> None:
    lot = Lot(tmp_path)
    lot.parking.begin_batch(0)
    lot.parking.park([raw(5, 7, payload=None), raw(6, schema_id="B")], now_us=1)
    release = lot.parking.next_release(["A"], ())
    assert offsets(release) == [5, 7]
    assert release is not None
    row: dict[str, Any] = release.messages.to_pylist()[0]
    assert (row["topic"], row["partition"], row["key"], row["payload"]) == ("cdc/data", 2, b"k", None)
    assert row["timestamp_us"] == 1_690_000_000_000_000
    assert decode_headers(row["headers"]) == HEADERS
    finish(lot, release)
    assert lot.parking.next_release(["A"], ()) is None
    assert lot.ledger.waiting_ids() == ["B"]
    lot.close()


def test_parking_keeps_an_interrupted_release_and_its_number_when_restarted(tmp_path: Path) -> None:
    lot = Lot(tmp_path)
    lot.parking.begin_batch(0)
    lot.parking.park([raw(1)], now_us=1)
    first = lot.parking.next_release(["A"], ())
    lot.restart()
    lot.parking.park([raw(2)], now_us=1)
    again = lot.parking.next_release(["A"], ())
    assert first is not None
    assert again is not None
    assert again.number == first.number
    assert offsets(again) == [1]
    finish(lot, again)
    assert offsets(lot.parking.next_release(["A"], ())) == [2]
    lot.close()


def test_parking_says_what_the_first_run_of_a_batch_set_aside_when_it_runs_again(tmp_path: Path) -> None:
    lot = Lot(tmp_path)
    assert lot.parking.begin_batch(4) is None
    lot.parking.park([raw(1, 2)], now_us=1)
    lot.parking.dead_letter([raw(3, reason="torn")], now_us=1)
    lot.parking.end_batch()
    finish(lot, lot.parking.next_release(["A"], ()))  # also what came back in the meantime was set aside
    lot.restart()
    before = lot.parking.begin_batch(4)
    assert before is not None
    assert sorted(before["offset"].to_pylist()) == [1, 2, 3]
    assert lot.parking.begin_batch(5) is None
    lot.close()


@pytest.mark.parametrize("step", ["dead_letter", "give_up", "release"])
def test_parking_buries_nothing_twice_when_a_crash_leaves_the_ledger_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    lot = Lot(tmp_path)
    lot.parking.begin_batch(4)
    lot.parking.park([raw(1, 2)], now_us=1)

    def work() -> None:
        if step == "dead_letter":
            lot.parking.dead_letter([raw(1, 2, reason="torn")], now_us=1)
        elif step == "give_up":
            lot.parking.give_up(lot.parking.overdue(1), "late", 2)
        else:
            release = lot.parking.next_release(["A"], ())
            assert release is not None
            lot.parking.finish_release(release, 2, dead=[raw(1, 2, reason="torn")])

    def crash(*arguments: Any, **options: Any) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "add", crash)
        patch.setattr(Ledger, "finish_release", crash)
        with pytest.raises(MemoryError):
            work()
    lot.restart()
    lot.parking.dead_letter([raw(77, reason="another")], now_us=1)  # another step may come before the one that was cut short
    lot.restart()
    work()
    assert lot.ledger.counts()["dead"] == 3
    lot.close()
    assert lot.count(DEAD_LETTER_TOPIC) == 3


def test_parking_keeps_the_bytes_of_another_message_at_the_place_of_one_that_a_crash_left(tmp_path: Path) -> None:
    lot = Lot(tmp_path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Ledger, "add", fail_with(MemoryError()))
        with pytest.raises(MemoryError):
            lot.parking.dead_letter([raw(1, 2, reason="bad", payload=b"of the old topic")], 1)
    lot.restart()
    sent = [raw(1, reason="bad", payload=b"of the new topic"), raw(2, reason="bad", payload=b"of the old topic")]
    lot.parking.dead_letter(sent, 2)
    assert lot.count(DEAD_LETTER_TOPIC) == 3
    found = lot.ledger.parked_batches("dead")
    kept = [m for parked_batch in found for part in lot.parking._read(parked_batch) for m in part["payload"].to_pylist()]
    assert sorted(kept) == [b"of the new topic", b"of the old topic"]
    lot.close()


def test_parking_moves_what_waits_too_long_to_the_delayed_topic_and_still_gives_it_back(tmp_path: Path) -> None:
    lot = Lot(tmp_path)
    lot.parking.begin_batch(0)
    lot.parking.park([raw(1)], now_us=10)
    lot.parking.park([raw(2)], now_us=30)
    overdue = lot.parking.overdue(20)
    assert [parked_batch.count for parked_batch in overdue] == [1]
    lot.parking.delay(overdue)
    assert lot.parking.overdue(20) == []
    assert lot.ledger.counts() == {"parked": 1, "delayed": 1}
    lot.restart()
    assert sorted(offsets(lot.parking.next_release(["A"], ()))) == [1, 2]
    lot.close()
    assert lot.count(DELAYED) == 1
    with connect(f"file://{tmp_path / 'log'}") as log:
        (message,) = log.poll(DELAYED, 1, count=10)
    assert message.headers["hs.reason"] == "the schema did not arrive in time: schema id A"


def test_parking_gives_up_with_a_reason_and_the_bytes(tmp_path: Path) -> None:
    lot = Lot(tmp_path)
    lot.parking.begin_batch(0)
    lot.parking.park([raw(1)], now_us=10)
    lot.parking.give_up(lot.parking.overdue(10), "too late", 20)
    assert lot.ledger.counts() == {"dead": 1}
    (parked_batch,) = lot.ledger.parked_batches("dead")
    assert (parked_batch.reason, parked_batch.schema_id, parked_batch.since_us) == ("too late", "A", 20)
    lot.close()
    with connect(f"file://{tmp_path / 'log'}") as log:
        (message,) = log.poll(DEAD_LETTER_TOPIC, 1, count=10)
    assert message.payload == b"data"
    assert message.headers["hs.reason"] == "too late"
    assert message.headers["hs.origin.offset"] == 1
    assert message.headers.getall("attempt") == (uint8(3), uint8(4))


def test_parking_holds_messages_of_a_table_until_it_is_to_be_tried_and_again_when_it_fails(tmp_path: Path) -> None:
    lot = Lot(tmp_path)
    lot.parking.begin_batch(0)
    lot.parking.hold([Held(("S", "t"), "no room", table(raw(1, 2), raw(3, schema_id="B")))], now_us=10)
    assert lot.ledger.waiting_tables() == {("S", "t")}
    assert lot.parking.next_release(["A", "B"], ()) is None
    assert lot.parking.overdue(99) == []
    release = lot.parking.next_release((), [("S", "t")])
    assert offsets(release) == [1, 2, 3]
    finish(lot, release, held=[Held(("S", "t"), "still no room", table(raw(1, 2)))])
    assert [(p.reason, p.count, p.since_us) for p in lot.ledger.parked_batches("parked")] == [("still no room", 2, 10)]
    release = lot.parking.next_release((), [("S", "t")])
    finish(lot, release, held=[Held(("S", "t"), "half", table(raw(2)))])
    assert offsets(lot.parking.next_release((), [("S", "t")])) == [2]
    lot.close()
    assert lot.count(PARKED_TOPIC) == 4  # a parked batch that comes back whole is not written again


def test_parking_makes_few_parcels_of_very_many_reasons(tmp_path: Path) -> None:
    lot = Lot(tmp_path)
    lot.parking.begin_batch(0)
    lot.parking.dead_letter([raw(number, reason=f"ends at byte {number}") for number in range(100)], now_us=1)
    lot.parking.dead_letter([raw(number, reason="x" * (number + 1)) for number in range(100)], now_us=1)
    first, *rest = lot.ledger.parked_batches("dead")
    assert (first.reason, first.count) == ("ends at byte N", 100)
    assert len(rest) == 65
    assert sum(parked_batch.count for parked_batch in rest) == 100
    assert "several reasons" in {parked_batch.reason for parked_batch in rest}
    lot.close()
