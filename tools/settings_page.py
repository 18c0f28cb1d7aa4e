"""The page of settings: every key of the server, every setting of a Replicate pipeline, every option of Spark, from the code."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, Final

from headstream.replicate.settings.config import ReplicateConfig
from headstream.replicate.settings.debezium_settings import DebeziumSettings
from headstream.replicate.settings.formats import MessageFormat
from headstream.replicate.settings.iceberg_settings import IcebergSettings
from headstream.replicate.settings.merge_settings import MergeSettings
from headstream.replicate.settings.registry_settings import RegistrySettings
from headstream.replicate.settings.table_settings import TableSettings
from headstream.replicate.storage.storage_settings import StorageSettings
from headstream.server.config.keys import KEYS, Key
from headstream.spark.sink import options as sink
from headstream.spark.source import options as source

__all__ = ["make_page"]

_HEAD: Final = """# Settings

For operators and data engineers: name, default and meaning of every setting of the server, of a Replicate pipeline, and of
Spark's source and sink. The page is generated from the code.
"""
_SERVER: Final = """## The server

[The server](server.md#settings) describes the meaning of these keys and how to set them. A key with a reason in the last column
is accepted but has no effect; a key with *only* accepts no other value.

| key | default | variable | |
|---|---|---|---|"""
_PIPELINE: Final = """## A Replicate pipeline

These settings are at the top of the file that `headstream replicate run --config` reads
([an example](../examples/replicate.toml)). Most settings are also options of the command, with `-` in place of `_`.
In Python, the settings are fields of `ReplicateConfig`; the names of durations end in `_us`.
"""
_SECTIONS: Final = (
    ('### `[defaults]` and `[table."PATTERN"]`', TableSettings),
    ("### `[merge]`, also with `strategy`: the `merge_strategy` of all tables", MergeSettings),
    ("### `[debezium]`", DebeziumSettings),
    ("### `[iceberg]`: [Iceberg tables from Delta tables](iceberg.md)", IcebergSettings),
    ("### `[registry]`", RegistrySettings),
    ("### `[storage]`", StorageSettings),
    ("### `[format]`", MessageFormat),
)
_ELSEWHERE: Final = {"local_copy", "rules", "registry", "format", "storage", "merge", "iceberg", "debezium"}
"""Fields of ReplicateConfig that are sections, or are not for users."""
_SPARK: Final = """## Spark

These are the options of `format("headstream")`. For their meaning, see [reading](spark.md#read-options) and
[writing](spark.md#writing).

| | options |
|---|---|"""


def make_page() -> str:
    """Return the page, as Markdown."""
    lines = [_HEAD, _SERVER, *(_server_row(name, key) for name, key in KEYS.items()), "", _PIPELINE]
    lines += [*_table(ReplicateConfig, _ELSEWHERE), ""]
    for title, settings in _SECTIONS:
        lines += [title, "", *_table(settings), ""]
    lines.append(_SPARK)
    for direction, names in (("reading", source.OPTION_NAMES), ("writing", sink.OPTION_NAMES)):
        lines.append(f"| {direction} | {', '.join(f'`{name}`' for name in names)} |")
    return "\n".join([*lines, ""])


def _server_row(name: str, key: Key) -> str:
    plain = name.removeprefix("headstream.") if name.startswith("headstream.") else name
    variable = f"HEADSTREAM_{re.sub('[.]', '_', plain).upper()}"
    only = f"only {_show(key.only)}" if key.only is not None else ""
    about = ": ".join(text for text in (only, key.without or "") if text)
    return f"| `{name}` | {_show(key.default)} | `{variable}` | {about} |"


def _table(settings: type, left_out: set[str] | None = None) -> Iterator[str]:
    """Iterate over the lines of a table of a dataclass's fields, with the texts of its docstring."""
    texts = _describe_fields(settings)
    yield "| setting | default | |"
    yield "|---|---|---|"
    for item in fields(settings):
        if item.name in (left_out or set()):
            continue
        default = item.default if item.default_factory is MISSING else item.default_factory()
        is_duration = item.name.endswith("_us")
        text = texts[item.name].replace(", microseconds", "") if is_duration else texts[item.name]
        shown = (
            "required" if default is MISSING else _duration(default) if is_duration and default is not None else _show(default)
        )
        yield f"| `{item.name.removesuffix('_us')}` | {shown} | {text} |"


def _describe_fields(settings: type) -> dict[str, str]:
    """Return the text of each field in the section Args of a class's docstring."""
    arguments = (inspect.getdoc(settings) or "").partition("Args:\n")[2].partition("\n\n")[0]
    found = re.findall(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", arguments, re.MULTILINE)
    return {name: " ".join(text.split()).replace("|", "\\|") for name, text in found}


def _duration(us: int) -> str:
    return f"`{us / 1_000_000:g}s`"


def _show(value: Any) -> str:
    if value is None or value == "" or value == ():
        return "none"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, Mapping):
        return "none" if not value else f"`{dict(value)}`"
    if isinstance(value, (tuple, list)):
        return ", ".join(f"`{item}`" for item in value) or "none"
    return f"`{value.as_posix() if isinstance(value, Path) else value}`"
