"""The capture's messages, read by fastavro and json alone and applied by a small interpreter, give the model's state."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, time
from typing import Any

import pytest

from headstream.errors import InvalidOptionError
from headstream.replicate.codec import decode_envelope, decode_metadata
from headstream.testing import CaptureOptions, SourceDatabase, repeat, shuffle
from tests.support.replicate.source_replay import DecodedChange, read_metadata, read_value, replay

OPTIONS = {
    "default": CaptureOptions(),
    "partial": CaptureOptions(partial_images=True),
    "partial without before": CaptureOptions(partial_images=True, before_images=False),
    "partial, also where the key changes": CaptureOptions(partial_images=True, partial_key_changes=True),
    "times of the full load, another task": CaptureOptions(refresh_times=True, task="shop-2"),
    "without before": CaptureOptions(before_images=False),
    "deleted key in data": CaptureOptions(deleted_columns="key"),
    "deleted row in before": CaptureOptions(deletes_in="before"),
    "deleted key in before, no others": CaptureOptions(deletes_in="before", deleted_columns="key", before_images=False),
    "big-endian masks": CaptureOptions(mask_order="big", partial_images=True),
    "old headers": CaptureOptions(transaction_fields=False),
    "envelope headers": CaptureOptions(envelope_headers={"origin": "test", "leer": ""}, message_keys="none"),
    "no envelope headers": CaptureOptions(envelope_headers={}),
    "late and repeated metadata": CaptureOptions(
        late_metadata={"SHOP.customers": 5, "SHOP.orders": "end"}, metadata_copies=2, metadata_ids=False
    ),
}


def make_source(seed: int = 11) -> SourceDatabase:
    return SourceDatabase(seed, rows=25, transactions=120, largest_transaction=9)


@pytest.mark.parametrize("name", OPTIONS)
def test_capture_replayed_gives_the_final_state(name: str) -> None:
    source, options = make_source(), OPTIONS[name]
    states = replay(source.capture(options), options.mask_order)
    assert len(states) == len(source.tables()) >= 5
    for table in source.tables():
        schema, short = table.lineage.schema, table.lineage.table
        state = states[f"{schema}.{short}"]
        assert len(state) > 5
        assert state == source.final_state(schema, short)


def test_capture_replayed_gives_the_final_state_when_shuffled_and_repeated() -> None:
    source = make_source(5)
    messages = repeat(shuffle(source.capture(CaptureOptions(partial_images=True)), seed=3), seed=4, fraction=0.2)
    states = replay(messages)
    for table in source.tables():
        schema, short = table.lineage.schema, table.lineage.table
        assert states[f"{schema}.{short}"] == source.final_state(schema, short)


def test_capture_carries_the_rows_of_the_history_message_by_message() -> None:
    source = make_source()
    messages = list(source.capture())
    metadata = read_metadata(messages)
    data = [message for message in messages if message.role == "data"]
    assert len(data) == len(source.changes)
    for message, change in zip(data, source.changes, strict=True):
        decoded = DecodedChange(message, metadata)
        whole = change.before if change.after is None else change.after
        assert whole is not None
        assert decoded.operation == change.operation == message.headers["operation"]
        assert decoded.data == {name: _as_table_value(value) for name, value in whole.items()}
        if change.operation == "UPDATE":
            assert change.before is not None
            assert decoded.before == {name: _as_table_value(value) for name, value in change.before.items()}
            lobs = {name for name, c in _columns(decoded).items() if c["type"] in ("BLOB", "CLOB", "NCLOB")}
            changed = {name for name in whole if whole[name] != change.before[name]} - lobs
            assert decoded.changed == {_columns(decoded)[name]["ordinal"] for name in changed}
            assert decoded.present == set(range(1, len(whole) + 1))
        else:
            assert decoded.before is None


def _columns(decoded: DecodedChange) -> dict[str, Any]:
    columns: dict[str, Any] = decoded.metadata["tableStructure"]["tableColumns"]
    return columns


def _as_table_value(value: Any) -> Any:
    return read_value("TIME", value) if isinstance(value, time) else value


def test_capture_headers_rise_and_close_their_transactions() -> None:
    messages = list(make_source().capture())
    metadata = read_metadata(messages)
    decoded = [DecodedChange(message, metadata) for message in messages if message.role == "data"]
    loaded = [change for change in decoded if change.operation == "REFRESH"]
    changes = decoded[len(loaded) :]
    assert loaded
    assert decoded[: len(loaded)] == loaded
    for change in loaded:
        texts = [change.headers[name] for name in ("changeSequence", "timestamp", "streamPosition", "transactionId")]
        assert texts == [""] * 4
        assert change.changed is change.present is change.headers["transactionEventCounter"] is None
        assert change.headers["transactionLastEvent"] is None
    sequences = [change.sequence for change in changes]
    assert {len(sequence) for sequence in sequences} == {35}
    assert sequences == sorted(set(sequences))
    assert [change.sequence[16:] for change in changes] == [f"{number:019d}" for number in range(1, len(changes) + 1)]
    transactions: dict[str, list[DecodedChange]] = {}
    for change in changes:
        transactions.setdefault(change.headers["transactionId"], []).append(change)
        committed = datetime.fromisoformat(change.headers["timestamp"])
        assert change.sequence[:16] == f"{committed:%Y%m%d%H%M%S}{committed.microsecond // 10_000:02d}"
    assert len(transactions) == 120
    for events in transactions.values():
        assert [event.headers["transactionEventCounter"] for event in events] == list(range(1, len(events) + 1))
        assert [event.headers["transactionLastEvent"] for event in events] == [False] * (len(events) - 1) + [True]


def test_capture_puts_metadata_before_the_data_it_describes() -> None:
    source = make_source()
    known: set[str] = set()
    counted = 0
    for message in source.capture():
        if message.role == "metadata":
            counted += 1
            known.add(message.schema_id)
        assert message.schema_id in known
    assert counted == len(known) == len(source.tables()) + 1  # one table was altered


def test_capture_holds_metadata_back_when_it_is_to_be_late() -> None:
    options = CaptureOptions(late_metadata={"SHOP.customers": 7, "SHOP.orders": "end"}, metadata_copies=2)
    messages = list(make_source().capture(options))
    assert [message.table for message in messages[-2:]] == ["SHOP.orders"] * 2
    assert [message.role for message in messages[-2:]] == ["metadata"] * 2
    customers = [message for message in messages if message.table == "SHOP.customers"]
    assert [message.role for message in customers[:9]] == ["data"] * 7 + ["metadata"] * 2
    places = [place for place, message in enumerate(customers) if message.role == "metadata"]
    assert len(places) == 4
    assert customers[places[2]].schema_id != customers[0].schema_id
    second = [message.role for message in customers if message.schema_id == customers[places[2]].schema_id]
    assert second[:9] == ["data"] * 7 + ["metadata"] * 2


def test_capture_metadata_is_what_the_database_says() -> None:
    source = make_source()
    published = [decode_metadata(decode_envelope(m.value)) for m in source.capture() if m.role == "metadata"]
    expected = [version for t in source.tables() for version in source.versions(t.lineage.schema, t.lineage.table)]
    assert sorted(published, key=lambda m: m.schema_id) == sorted(expected, key=lambda m: m.schema_id)
    before, after = source.versions("SHOP", "customers")
    assert [c.name for c in after.columns] == [*(c.name for c in before.columns), "tier"]
    assert (before.columns[6].type, after.columns[6].type) == ("INT4", "INT8")
    assert (before.lineage.table_version, after.lineage.table_version) == (1, 2)


def test_capture_leaves_columns_out_when_images_are_partial() -> None:
    messages = list(make_source().capture(CaptureOptions(partial_images=True)))
    metadata = read_metadata(messages)
    updates = [c for m in messages if m.role == "data" and (c := DecodedChange(m, metadata)).operation == "UPDATE"]
    absent = [change for change in updates if len(change.data) < len(_columns(change))]
    assert len(absent) > len(updates) / 2
    assert all(change.changed is not None and change.present is not None for change in updates)
    assert all(change.changed <= change.present for change in updates if change.changed and change.present)
    moved = [change for change in updates if change.before and change.key(change.before) != change.key(change.data)]
    assert moved
    assert all(len(change.data) == len(_columns(change)) for change in moved)


@pytest.mark.parametrize(
    ("options", "data_has", "before_has"),
    [
        (CaptureOptions(), "all", "nothing"),
        (CaptureOptions(deleted_columns="key"), "key", "nothing"),
        (CaptureOptions(deletes_in="before"), "nothing", "all"),
        (CaptureOptions(deletes_in="before", deleted_columns="key"), "nothing", "key"),
    ],
)
def test_capture_puts_a_deleted_row_where_the_options_say(options: CaptureOptions, data_has: str, before_has: str) -> None:
    messages = list(make_source().capture(options))
    metadata = read_metadata(messages)
    deletes = [c for m in messages if m.role == "data" and (c := DecodedChange(m, metadata)).operation == "DELETE"]
    assert deletes
    for change in deletes:
        ordinals = {_columns(change)[name]["ordinal"] for name in change.keys}
        assert change.changed == ordinals
        for section, has in ((change.data, data_has), (change.before or {}, before_has)):
            expected = {"all": set(_columns(change)), "key": set(change.keys), "nothing": set()}[has]
            assert {name for name, value in section.items() if value is not None} <= expected
            assert all(section[name] is not None for name in (change.keys if has != "nothing" else ()))
            if has != "nothing":
                assert set(section) == expected
        assert (change.before is None) == (before_has == "nothing")


def test_capture_makes_message_keys_and_headers_as_the_options_say() -> None:
    source = make_source()
    plain = [message for message in source.capture() if message.role == "data"]
    order = next(message for message in plain if message.table == "SHOP.orders")
    assert order.key is not None
    assert list(json.loads(order.key)) == ["number"]
    assert order.headers == {"table": "SHOP.orders", "version": 1, "operation": "REFRESH"}
    assert plain[-1].headers["last"] is True
    assert plain[-1].headers["transaction"] == 120
    named = [message for message in source.capture(CaptureOptions(message_keys="table")) if message.role == "data"]
    assert all(message.key == message.table.encode() for message in named)
    silent = source.capture(OPTIONS["envelope headers"])
    assert {message.key for message in silent if message.role == "data"} == {None}


def test_capture_keeps_envelope_headers_and_old_headers_when_asked() -> None:
    messages = list(make_source().capture(replace(OPTIONS["envelope headers"], transaction_fields=False)))
    metadata = read_metadata(messages)
    decoded = [DecodedChange(message, metadata) for message in messages if message.role == "data"]
    assert all(change.envelope_headers == {"origin": "test", "leer": ""} for change in decoded)
    avro = [change for change in decoded if "externalSchemaId" not in change.headers]
    assert avro
    assert all("transactionEventCounter" not in change.headers for change in avro)


@pytest.mark.parametrize(
    "options",
    [
        CaptureOptions(late_metadata={"SHOP.nothing": 1}),
        CaptureOptions(late_metadata={"SHOP.orders": -1}),
        CaptureOptions(metadata_copies=0),
    ],
)
def test_capture_refuses_options_that_contradict_the_database(options: CaptureOptions) -> None:
    with pytest.raises(InvalidOptionError):
        make_source().capture(options)


def test_capture_of_bare_json_is_the_message_of_the_envelope() -> None:
    source = make_source()
    pairs = list(zip(source.capture(), source.capture(CaptureOptions(json_envelopes=False)), strict=True))
    bare = [(whole, part) for whole, part in pairs if whole.role == "data" and whole.value.startswith(b"{")]
    assert len(bare) > 20
    assert all(json.loads(whole.value)["message"] == json.loads(part.value) for whole, part in bare)
    assert all(whole == part for whole, part in pairs if whole.role == "metadata" or not whole.value.startswith(b"{"))


def test_capture_of_another_task_says_the_same_under_other_schema_ids() -> None:
    source = make_source()
    first, second = (list(source.capture(options)) for options in (CaptureOptions(), CaptureOptions(task="shop-2")))
    assert not {message.schema_id for message in first} & {message.schema_id for message in second}
    assert {body["lineage"]["task"] for body in read_metadata(second).values()} == {"shop-2"}
    assert replay(first) == replay(second)


def test_capture_says_when_a_full_load_was_where_the_options_want_it() -> None:
    source = make_source()
    messages = list(source.capture(CaptureOptions(refresh_times=True)))
    metadata = read_metadata(messages)
    loaded = [c for c in (DecodedChange(m, metadata) for m in messages if m.role == "data") if c.operation == "REFRESH"]
    assert {(change.sequence, change.headers["timestamp"]) for change in loaded} == {("", "2024-01-15T07:59:00.000")}


def test_partial_changes_of_keys_leave_columns_to_the_row_of_the_old_key() -> None:
    source = make_source()
    messages = list(source.capture(CaptureOptions(partial_images=True, partial_key_changes=True)))
    metadata = read_metadata(messages)
    updates = [c for c in (DecodedChange(m, metadata) for m in messages if m.role == "data") if c.operation == "UPDATE"]
    moved = [change for change in updates if change.before and change.key(change.before) != change.key(change.data)]
    assert any(len(change.data) < len(change.metadata["tableStructure"]["tableColumns"]) for change in moved)
