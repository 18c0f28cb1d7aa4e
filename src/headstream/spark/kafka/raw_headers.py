"""Selects, by Spark's own expressions, the headers of Kafka's records that Python decodes for declared header columns.

    the record has                                                     Python gets
    hs.kinds, a header of another tool's convention, or invalid keys   all headers
    raw headers only                                                   the last value of each declared BINARY column; for other
                                                                       columns, which are null: whether the header exists, for a
                                                                       warning

Copying a list of headers to Arrow and decoding the list takes longer than reading the record; a single value is cheap. Python
gets all headers of a record that can have kinds, so the values equal those that the kernels decode from all headers
(tests/integration/kafka/test_raw_header_columns.py compares both).

Each expression is a separate column below the Arrow function, because Spark would otherwise evaluate an argument of the function
at every occurrence. Expressions above the function use only its result: Spark's optimizer loses a column of structs that is used
both above and below such a function (4.2: INTERNAL_ERROR_ATTRIBUTE_NOT_FOUND).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Final

from headstream.core.codec.batch.results import WantedHeader
from headstream.core.model.header_block import MAX_KEY_BYTES
from headstream.core.model.reserved import KINDS_HEADER, is_reserved
from headstream.spark.workers.arrow_functions import replace_null_lists

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

KAFKA_HEADERS: Final = "array<struct<key:string,value:binary>>"
"""Spark's type of a Kafka record's headers."""
_KEYS: Final = "_hs_keys"
_VALUE: Final = "_hs_value_"
_IS_DECODED: Final = "_hs_is_decoded"
_ENVELOPE: Final = b'{"schema":'
"""Prefix of Kafka Connect's values that can have a kind."""
_SPRING_TYPES: Final = "spring_json_header_types"
_EVENT: Final = "ce_specversion"
_CONVENTIONS: Final = ("spring_", "kafka_", "__connect.", "ce_", "content-type")
"""Prefixes of names to which a convention assigns a kind; see core/codec/kafka/conventions.py."""


class RawHeaders:
    """The expressions for the declared header columns, over the columns of Spark's Kafka source.

    Args:
        fail_on_mismatch: Whether a header that does not fit its column is an error; if so, Python decodes every record.
    """

    def __init__(self, wanted: Sequence[WantedHeader], *, fail_on_mismatch: bool) -> None:
        from pyspark.sql import functions as sf

        self._wanted = wanted
        self._fail_on_mismatch = fail_on_mismatch
        self._keys = sf.col(_KEYS)
        self._values = [sf.col(f"{_VALUE}{number}") for number in range(len(wanted))]
        self._is_decoded = sf.col(_IS_DECODED)

    def prepare(self, frame: DataFrame) -> DataFrame:
        """Return the frame with additional columns that the other methods use."""
        from pyspark.sql import functions as sf

        values = {f"{_VALUE}{number}": self._last_value(column.name) for number, column in enumerate(self._wanted)}
        frame = frame.withColumn(_KEYS, sf.col("headers")["key"]).withColumns(values)
        return frame.withColumn(_IS_DECODED, sf.lit(True) if self._fail_on_mismatch else self._find_typed())

    def _last_value(self, name: str) -> Column:
        """Return the value of the last header with this name; null if there is none.

        Spark compiles these expressions; it would interpret a lambda, which would take longer than all other work on a row.
        """
        from pyspark.sql import functions as sf

        from_end = sf.array_position(sf.reverse(self._keys), name)
        return sf.get(sf.col("headers"), (sf.size(sf.col("headers")) - from_end).cast("int"))["value"]

    def _find_typed(self) -> Column:
        """Return whether a record can have headers of kinds other than raw and null, or invalid headers."""
        from pyspark.sql import functions as sf

        keys = self._keys
        special_keys = [KINDS_HEADER, _SPRING_TYPES, "", *(_EVENT,) * any(_is_special(column.name) for column in self._wanted)]
        special_keys += [column.name for column in self._wanted if _is_special(column.name)]
        reasons = [sf.array_contains(keys, key) for key in special_keys]
        reasons.append(sf.octet_length(sf.array_join(keys, "")) > MAX_KEY_BYTES)  # otherwise each key is short enough
        reasons += [sf.startswith(value, sf.lit(_ENVELOPE)) for value in self._values]
        return sf.coalesce(reduce(or_, reasons), sf.lit(False))

    def decoded_lists(self) -> Column:
        """Return the headers of each record that Python decodes; for other records, an empty list."""
        from pyspark.sql import functions as sf

        return replace_null_lists(sf.when(self._is_decoded, sf.col("headers")), KAFKA_HEADERS)

    def raw_values(self) -> list[Column]:
        """Return each declared column's last header: its value for a BINARY column, otherwise whether it exists."""
        pairs = zip(self._wanted, self._values, strict=True)
        return [value if column.type == "binary" else value.isNotNull() for column, value in pairs]

    def coordinate(self, name: str) -> Column:
        """Return one of a record's coordinates; null if no warning or error in Python can contain the coordinate."""
        from pyspark.sql import functions as sf

        pairs = zip(self._wanted, self._values, strict=True)
        misfits = (value.isNotNull() for column, value in pairs if column.type != "binary")
        return sf.when(reduce(or_, misfits, self._is_decoded), sf.col(name))


def _is_special(name: str) -> bool:
    """Return whether the name alone determines a header's kind, or shows that another tool added the header."""
    return is_reserved(name) or name.startswith(_CONVENTIONS)
