"""The forms of data messages in JSON: Replicate's default sections, a custom Message Format, and the flat form before version 6.

default    {"data": {..}, "beforeData": {..} | null, "headers": {"operation": .., "changeSequence": .., ..}}
custom     sections renamed ("data": "after"), or flattened ("headers": "headers_*": {"headers_operation": ..}), header
           fields renamed ("operation": "op")
flat       {"task_name", "schema", "table": text, "op": "F" | "I" | "U" | "D", "stream_position", "change_seq", "ts": text,
           "data": [{<column>: value}, ..], "bu_data": [{<column>: value}, ..]}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from headstream.errors import DecodeError

HEADER_FIELDS: Final = (
    "operation",
    "changeSequence",
    "timestamp",
    "streamPosition",
    "transactionId",
    "changeMask",
    "columnMask",
    "transactionEventCounter",
    "transactionLastEvent",
    "externalSchemaId",
)
_FLAT_OPERATIONS: Final = {"F": "REFRESH", "I": "INSERT", "U": "UPDATE", "D": "DELETE"}


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageFormat:
    """The names of a message's parts, from the custom Message Format of the endpoint or task.

    Args:
        data: The section with the row; `name_*`: the columns are flat in the message, with names prefixed with
            `name_`; `*`: the columns are flat under their own names.
        before_data: The section with the row before the change, in the notation of `data`; messages can omit the section.
        headers: The section with the headers, in the notation of `data`.
        fields: Renamed header fields: Replicate's name -> the name in messages.
    """

    data: str = "data"
    before_data: str = "beforeData"
    headers: str = "headers"
    fields: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_default(self) -> bool:
        """Whether this is Replicate's default format."""
        return self == MessageFormat()

    def fits(self, document: Mapping[str, Any]) -> bool:
        """Return whether a JSON object has this format's sections."""
        name = self.fields.get("operation", "operation")
        if self.headers.endswith("*"):
            return f"{self.headers[:-1]}{name}" in document
        return self.headers in document and (self.data.endswith("*") or self.data in document)

    def read(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Return a message in Replicate's standard form: data, beforeData and headers."""
        if self.is_default:
            return dict(document)
        rest = dict(document)
        headers = _pull_section(rest, self.headers, [self.fields.get(name, name) for name in HEADER_FIELDS])
        if isinstance(headers, dict):
            headers = {name: headers.get(self.fields.get(name, name)) for name in HEADER_FIELDS}
        # The longer prefix first: `data_before_x` is not the column `before_x` of `data_*`.
        order = sorted((("data", self.data), ("beforeData", self.before_data)), key=lambda pair: -len(pair[1]))
        sections = {name: _pull_section(rest, written, None) for name, written in order}
        if sections["beforeData"] == {}:
            sections["beforeData"] = None
        return {"data": sections["data"], "beforeData": sections["beforeData"], "headers": headers}


def _pull_section(rest: dict[str, Any], written: str, names: list[str] | None) -> Any:
    """Remove and return a section of a document: an object by name, or flat fields by prefix."""
    if not written.endswith("*"):
        return rest.pop(written, None)
    prefix = written[:-1]
    found = [name for name in rest if name.startswith(prefix) and (names is None or name[len(prefix) :] in names)]
    return {name[len(prefix) :]: rest.pop(name) for name in found}


def is_flat(document: Mapping[str, Any]) -> bool:
    """Return whether a JSON object is a message in the flat form."""
    return "op" in document and "change_seq" in document and "data" in document


def read_flat(document: Mapping[str, Any]) -> tuple[str, str, dict[str, Any]]:
    """Return the source schema, the table and, in Replicate's later format, the message of the flat form.

    Raises:
        DecodeError: the message does not have the flat form.
    """
    schema, table = document.get("schema"), document.get("table")
    if not isinstance(schema, str) or not isinstance(table, str) or not table:
        raise DecodeError("the schema and table in a flat message must be strings", 0)
    operation = document.get("op")
    if operation not in _FLAT_OPERATIONS:
        raise DecodeError(f"the operation of a flat message must be F, I, U or D, not {str(operation)[:40]!r}", 0)
    before = _merge_columns(document.get("bu_data"), "bu_data")
    headers = {
        "operation": _FLAT_OPERATIONS[operation],
        "changeSequence": document.get("change_seq") or "",
        "timestamp": document.get("ts") or "",
        "streamPosition": document.get("stream_position") or "",
        "transactionId": document.get("transaction_id") or "",
    }
    message = {"data": _merge_columns(document.get("data"), "data") or {}, "beforeData": before, "headers": headers}
    return schema, table, message


def _merge_columns(section: object, name: str) -> dict[str, Any] | None:
    """Return the columns of a flat message's section, which is an object, or a list of objects that have some columns each."""
    if section is None:
        return None
    parts = section if isinstance(section, list) else [section]
    columns: dict[str, Any] = {}
    for part in parts:
        if not isinstance(part, dict) or columns.keys() & part.keys():
            raise DecodeError(f"{name} of a flat message must be a list of distinct columns", 0)
        columns |= part
    return columns or None
