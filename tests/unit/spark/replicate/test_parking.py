from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from headstream.codec.binary import decode_headers, encode_headers
from headstream.connect import connect
from headstream.model.constructors import uint8
from headstream.model.headers import Headers
from headstream.spark.replicate.ledger import Ledger
from headstream.spark.replicate.parking import DEAD_LETTER_TOPIC, PARKED_TOPIC, ParkingLot
from headstream.spark.replicate.raw import RAW_SCHEMA

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
        self.parking = ParkingLot(self.directory, DELAYED, self.ledger)

    def restart(self) -> None:
        self.close()
        self.open()

    def close(self) -> None:
        self.parking.close()
        self.ledger.close()

    def count(self, topic: str) -> int:
        with connect(f"file://{self.directory / 'log'}") as log:
            return log.topic(topic).messages_count


def offsets(release: tuple[int, pa.RecordBatch] | None) -> list[int]:
    assert release is not None
    found: list[int] = release[1].column("offset").to_pylist()
    return found


def test_parking_gives_messages_back_whole_when_their_schema_comes(tmp_path: Path) -> None:
    lot = Lot(tmp_path)
    lot.parking.begin_batch(0)
    lot.parking.park([raw(5, 7, payload=None), raw(6, schema_id="B")], now_us=1)
    release = lot.parking.next_release(["A"])
    assert offsets(release) == [5, 7]
    assert release is not None
    row: dict[str, Any] = release[1].to_pylist()[0]
    assert (row["topic"], row["partition"], row["key"], row["payload"]) == ("cdc/data", 2, b"k", None)
    assert row["timestamp_us"] == 1_690_000_000_000_000
    assert decode_headers(row["headers"]) == HEADERS
    lot.parking.finish_release(release[0])
    assert lot.parking.next_release(["A"]) is None
    assert lot.ledger.waiting_ids() == ["B"]
    lot.close()


def test_parking_keeps_an_interrupted_release_and_its_number_when_restarted(tmp_path: Path) -> None:
    lot = Lot(tmp_path)
    lot.parking.begin_batch(0)
    lot.parking.park([raw(1)], now_us=1)
    first = lot.parking.next_release(["A"])
    lot.restart()
    lot.parking.park([raw(2)], now_us=1)
    again = lot.parking.next_release(["A"])
    assert first is not None
    assert again is not None
    assert again[0] == first[0]
    assert offsets(again) == [1]
    lot.parking.finish_release(again[0])
    assert offsets(lot.parking.next_release(["A"])) == [2]
    lot.close()


def test_parking_puts_nothing_twice_when_a_batch_runs_again(tmp_path: Path) -> None:
    lot = Lot(tmp_path)
    for _ in range(2):
        lot.parking.begin_batch(4)
        lot.parking.park([raw(1, 2)], now_us=1)
        lot.parking.bury([raw(3, reason="torn")])
        lot.restart()
    lot.close()
    assert (lot.count(PARKED_TOPIC), lot.count(DEAD_LETTER_TOPIC)) == (2, 1)


def test_parking_records_what_a_crash_left_in_the_log_alone_when_the_batch_runs_again(tmp_path: Path) -> None:
    lot = Lot(tmp_path)
    lot.parking.begin_batch(4)
    lot.parking._put(PARKED_TOPIC, raw(1).to_pylist())  # the process ends before the ledger knows
    lot.restart()
    lot.parking.begin_batch(4)
    lot.parking.park([raw(1)], now_us=1)
    assert offsets(lot.parking.next_release(["A"])) == [1]
    lot.close()
    assert lot.count(PARKED_TOPIC) == 1


def test_parking_moves_what_waits_too_long_to_the_delayed_topic_and_still_gives_it_back(tmp_path: Path) -> None:
    lot = Lot(tmp_path)
    lot.parking.begin_batch(0)
    lot.parking.park([raw(1)], now_us=10)
    lot.parking.park([raw(2)], now_us=30)
    overdue = lot.parking.overdue(20)
    assert [message.offset for message in overdue] == [1]
    lot.parking.delay(overdue)
    assert lot.parking.overdue(20) == []
    assert lot.ledger.counts() == {"parked": 1, "delayed": 1}
    lot.restart()
    assert offsets(lot.parking.next_release(["A"])) == [1, 2]
    lot.close()
    assert lot.count(DELAYED) == 1


def test_parking_gives_up_with_a_reason_and_the_bytes(tmp_path: Path) -> None:
    lot = Lot(tmp_path)
    lot.parking.begin_batch(0)
    lot.parking.park([raw(1)], now_us=10)
    lot.parking.give_up(lot.parking.overdue(10), "too late")
    assert lot.ledger.counts() == {}
    lot.close()
    with connect(f"file://{tmp_path / 'log'}") as log:
        (message,) = log.poll(DEAD_LETTER_TOPIC, 1, count=10)
    assert message.payload == b"data"
    assert message.headers["hs.reason"] == "too late"
    assert message.headers["hs.origin.offset"] == 1
    assert message.headers.getall("attempt") == (uint8(3), uint8(4))
