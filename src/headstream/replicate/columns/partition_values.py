"""The types and values by which a table can be partitioned such that every engine and reader finds the same rows.

A Delta log stores a partition value as a string, and deltalake also uses the string as a directory name:

    refused                            reason
    FLOAT, DOUBLE                      a value has several string forms, which can be longer than a file name
    BINARY                             deltalake escapes the bytes again with each commit
    DECIMAL with fraction digits       deltalake writes -1.50 as -1.-50
    ''                                 means null in the log
    __HIVE_DEFAULT_PARTITION__         means null in Spark
    ~                                  deltalake's compaction does not find the file
    the NUL character                  is not allowed in a path
    a long string                      exceeds the length of a file name
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote

import pyarrow as pa

MAX_NAME_BYTES: Final = 255
"""Maximum size of a directory name, bytes; the name consists of the column's name and the value, encoded by deltalake."""

_TYPE: Final = re.compile(r"TINYINT|SMALLINT|INT|BIGINT|DECIMAL\(\d+,\s*0\)|BOOLEAN|DATE|TIMESTAMP|TIMESTAMP_NTZ|STRING")
_HIVE_NULL: Final = "__HIVE_DEFAULT_PARTITION__"


def can_partition_by(spark_type: str) -> bool:
    """Return whether a table can be partitioned by columns of a Spark type."""
    return _TYPE.fullmatch(spark_type) is not None


def find_unusable(name: str, values: pa.StringArray) -> dict[int, str]:
    """Return the rows whose string cannot be a partition value, with the reasons."""
    encoded = values.dictionary_encode()
    bad = {code: why for code, text in enumerate(encoded.dictionary.to_pylist()) if (why := _problem(name, text)) is not None}
    if not bad:
        return {}
    return {row: bad[code] for row, code in enumerate(encoded.indices.to_pylist()) if code in bad}


def _problem(name: str, text: str) -> str | None:
    if not text:
        return "an empty string cannot be a partition value, because Delta stores it as null"
    if text == _HIVE_NULL or "~" in text or "\0" in text:
        return f"{text!r} is not a valid partition value in every engine"
    if len(f"{quote(name, safe='')}={quote(text, safe='')}") > MAX_NAME_BYTES:
        return f"{text[:20]!r}... is too long for a partition value: a directory name must have at most {MAX_NAME_BYTES} bytes"
    return None
