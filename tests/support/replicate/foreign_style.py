"""The many legal ways to write Replicate's messages, for a writer that is not ours."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Final

OPERATIONS: Final = ("INSERT", "UPDATE", "DELETE", "REFRESH")


@dataclass(frozen=True, slots=True)
class Style:
    """One legal way to write.

    Args:
        form: `avro` or `json`.
        schema_id: The id of the schema.
        namespace: Of the data schema; None for none.
        long_unions: Whether a union is written `[{"type": "null"}, {"type": "int"}]`.
        null_last: Whether null is the second branch.
        defaults: Whether fields that may be null say so by a default.
        logical: Whether dates, times and decimals are logical types.
        wide: Whether every whole number is a long, as some endpoints write them.
        fixed_decimals: Whether decimals are fixed, not bytes.
        local_moments: Whether moments are of local time.
        microseconds: Whether times of day count microseconds.
        fields: Header fields after the masks.
        operations: The order of the operation's symbols.
        headers_first: Whether the headers come before the data.
        column_order: The order of the data's fields, as places in the table.
        own_schema: Whether a data message carries its schema too.
        header_map: The envelope's own headers.
        map_blocks: How the bytes of that map are laid out: `one` block, `sized` (negative count, then bytes), or `many`.
        padded: Whether numbers are a byte longer than they must be.
        indent: Spaces that schemas and JSON are indented by; None for compact text.
        extra: Whether metadata has fields that nobody knows yet, and columns do not say whether they are nullable.
        trimmed_masks: Whether masks are as short as they can be.
        partial: Whether updates have only their key and what changed.
        deletes: Where a deleted row stands: `data`, `before`, `both`, or its `key` in data.
        empty_data: Whether in JSON a row that stands in beforeData alone leaves null for data, not a row of nulls.
    """

    form: str
    schema_id: str
    namespace: str | None
    long_unions: bool
    null_last: bool
    defaults: bool
    logical: bool
    wide: bool
    fixed_decimals: bool
    local_moments: bool
    microseconds: bool
    fields: tuple[str, ...]
    operations: tuple[str, ...]
    headers_first: bool
    column_order: tuple[int, ...]
    own_schema: bool
    header_map: Mapping[str, str] | None
    map_blocks: str
    padded: bool
    indent: int | None
    extra: bool
    trimmed_masks: bool
    partial: bool
    deletes: str
    empty_data: bool


def draw_style(random: Random, columns: int) -> Style:
    """Return a style for a table of so many columns."""

    def flag() -> bool:
        return random.random() < 0.5

    plain = uuid.UUID(int=random.getrandbits(128))
    return Style(
        form="json" if random.random() < 0.2 else "avro",
        schema_id=random.choice(
            [plain.hex.upper(), plain.hex, str(plain), str(random.randrange(10**9)), f"shop/größe {plain.hex}"]
        ),
        namespace=random.choice([None, "SHOP.orders", "com.attunity.queue.msg.chips-qa.TSTDTA.CINMAD", "a b.c"]),
        long_unions=flag(),
        null_last=random.random() < 0.2,
        defaults=flag(),
        logical=flag(),
        wide=random.random() < 0.3,
        fixed_decimals=random.random() < 0.3,
        local_moments=random.random() < 0.3,
        microseconds=random.random() < 0.3,
        fields=random.choice(
            [
                (),
                ("transactionEventCounter", "transactionLastEvent"),
                ("transactionEventCounter", "transactionLastEvent", "externalSchemaId"),
                ("sourceNode", "transactionLastEvent", "transactionEventCounter", "retries", "trace"),
            ]
        ),
        operations=random.choice([OPERATIONS, OPERATIONS[::-1], (*OPERATIONS, "TRUNCATE")]),
        headers_first=random.random() < 0.2,
        column_order=tuple(random.choice([range(columns), range(columns)[::-1], random.sample(range(columns), columns)])),
        own_schema=random.random() < 0.3,
        header_map=random.choice([None, {}, {"region": "eu"}, {f"key {n}": "ü" * n for n in range(70)}]),
        map_blocks=random.choice(["one", "sized", "many"]),
        padded=random.random() < 0.3,
        indent=random.choice([None, None, 1, 4]),
        extra=random.random() < 0.3,
        trimmed_masks=flag(),
        partial=flag(),
        deletes=random.choice(["data", "before", "both", "key"]),
        empty_data=flag(),
    )
