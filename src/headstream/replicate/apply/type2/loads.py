"""Full loads that have ended, in tables of SCD type 2: the versions that they close, and those without values from before them.

A load ends the rows that it does not contain. The version from before it is closed at the place at which the load ends
rows, or remains closed by the change that follows it. A version that such a change opens has no values from before the load.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa

from headstream.replicate.apply.type2.rows import commit_times
from headstream.replicate.columns.row_merge import Key
from headstream.replicate.columns.versions import ABSENT_VERSION, AGAIN_MARK, LOAD_MARK, VERSION_CHARACTERS
from headstream.replicate.engines.plan import quote_text

__all__ = ["BOOKKEEPING", "carries_over", "closings", "keys_carried_over"]

BOOKKEEPING: Final = ["_hs_valid_from", "_hs_versions"]
"""The columns that keys_carried_over() reads, with the key columns."""


def closings(ends: Sequence[tuple[str, str]]) -> tuple[Mapping[str, str], str]:
    """Return how to close the versions from before loads that no change and no row of the load has closed, as SQL.

    Args:
        ends: As Loads.ends.

    Returns:
        The expression of each changed column, and the condition for the rows to change.
    """
    cases, wanted = dict.fromkeys(("_hs_valid_to", "_hs_valid_to_time"), ""), []
    for bound, end in ends:
        later = f"(_hs_valid_to LIKE '%{LOAD_MARK}%' AND _hs_valid_to >= {quote_text(bound[: -len(LOAD_MARK)] + AGAIN_MARK)})"
        where = f"_hs_valid_from < {quote_text(bound)} AND (_hs_current OR {later})"
        wanted.append(f"({where})")
        time = commit_times(pa.array([end]))[0].as_py()
        at = "NULL" if time is None else f"TIMESTAMP '{time:%Y-%m-%d %H:%M:%S.%f}+00:00'"
        for name, value in (("_hs_valid_to", quote_text(end)), ("_hs_valid_to_time", at)):
            cases[name] += f" WHEN {where} THEN {value}"
    closing = {name: f"CASE{case} ELSE {name} END" for name, case in cases.items()} | {"_hs_current": "false"}
    return closing, f"NOT _hs_deleted AND ({' OR '.join(wanted)})"


def carries_over(ends: Sequence[tuple[str, str]]) -> str:
    """Return an SQL condition for versions since loads whose columns can be of several changes.

    Args:
        ends: As Loads.ends.
    """
    return f"_hs_versions IS NOT NULL AND NOT _hs_deleted AND _hs_valid_from > {quote_text(min(end for _, end in ends))}"


def keys_carried_over(rows: pa.Table, keys: Sequence[str], ends: Sequence[tuple[str, str]]) -> list[Key]:
    """Return the keys of versions since loads with values from before them.

    Args:
        rows: The versions for which carries_over() is true: key columns and BOOKKEEPING.
        keys: The key columns.
        ends: As Loads.ends.
    """
    found: dict[Key, None] = {}
    places = [end for _, end in ends]
    for row in rows.to_pylist():
        text = row["_hs_versions"]
        versions = {text[at : at + VERSION_CHARACTERS] for at in range(0, len(text), VERSION_CHARACTERS)} - {ABSENT_VERSION}
        oldest = min(versions, default=row["_hs_valid_from"])
        if any(oldest < end < row["_hs_valid_from"] for end in places):
            found[tuple(row[key] for key in keys)] = None
    return list(found)
