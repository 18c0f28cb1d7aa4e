"""A pipeline's configuration in a TOML file. All errors are reported together, with line numbers.

The file begins with the pipeline settings, named as in ReplicateConfig (times as "60s", sizes as "10GB"), and include
and exclude. [defaults] applies to all tables, and [table."pattern"] applies to matching tables, in order. [merge],
[registry], [storage], [format], [debezium], [iceberg], [topic_tables] and [kafka] set the fields with these names. [spark] has
settings of the Spark session, as `driver.memory = "4g"` or with full names. Relative paths are relative to the file's directory.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Final, get_args, get_type_hints

from headstream.core.model.local_paths import parse_local_path
from headstream.core.model.quantities import parse_duration_us, parse_size_bytes
from headstream.errors import InvalidOptionError, StorageError
from headstream.replicate.settings.config import (
    PATH_SETTINGS,
    TABLE_PLACES,
    OnIncompleteTransaction,
    OnMissingSchema,
    ReplicateConfig,
    find_problems,
)
from headstream.replicate.settings.debezium_settings import DebeziumSettings
from headstream.replicate.settings.formats import HEADER_FIELDS, MessageFormat
from headstream.replicate.settings.iceberg_settings import IcebergSettings
from headstream.replicate.settings.merge_settings import MergeSettings, MergeStrategy
from headstream.replicate.settings.registry_settings import RegistrySettings
from headstream.replicate.settings.table_settings import TableRule, TableRules, TableSettings, find_table_problems
from headstream.replicate.storage.places import Place, StorePlace, bind, parse_place
from headstream.replicate.storage.storage_settings import StorageSettings

_Reader = Callable[[Any], Any]


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("a string is required")
    return value


def _optional_text(value: Any) -> str:
    return _text(value) if value != "" else ""


def _texts(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
        raise ValueError('a list of strings is required, for example ["a", "b"]')
    return tuple(value)


def _pairs(value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(item, str) and item for item in value.values()):
        raise ValueError('a table of strings is required, for example {"a" = "b"}')
    return dict(value)


def _dotted_settings(value: Any, section: str) -> dict[str, str]:
    """Return settings with dotted names, because in TOML a dot in an unquoted name creates a nested table."""
    if not isinstance(value, dict):
        raise ValueError(f"a section is required, {section}")
    found: dict[str, str] = {}
    for name, item in value.items():
        if isinstance(item, dict):
            found |= {f"{name}.{rest}": text for rest, text in _dotted_settings(item, section).items()}
        elif isinstance(item, (str, int, float)):
            found[name] = str(item).lower() if isinstance(item, bool) else str(item)
        else:
            raise ValueError(f"{name} must be a string, a number, true or false")
    return found


def _session_settings(value: Any) -> dict[str, str]:
    settings = _dotted_settings(value, '[spark], for example driver.memory = "4g"')
    return {name if name.startswith("spark.") else f"spark.{name}": text for name, text in settings.items()}


def _count(value: Any) -> int:
    if type(value) is not int:
        raise ValueError("a whole number is required")
    return value


def _share(value: Any) -> float:
    if type(value) not in (int, float):
        raise ValueError("a number from 0 to 1 is required")
    return float(value)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("true or false is required")
    return value


def _duration(value: Any) -> int:
    return parse_duration_us(_text(value))


def _size(value: Any) -> int:
    return value if type(value) is int else parse_size_bytes(_text(value))


def _choice(*options: Any) -> _Reader:
    def read(value: Any) -> Any:
        if value not in options or isinstance(value, bool):
            close = difflib.get_close_matches(str(value), [str(option) for option in options], n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise ValueError(f"{value!r} is not one of {', '.join(str(option) for option in options)}{hint}")
        return value

    return read


def _table_readers() -> dict[str, _Reader]:
    """Return the reader of each table setting, by the setting's type."""
    readers: dict[str, _Reader] = {}
    for name, kind in get_type_hints(TableSettings).items():
        options = get_args(kind)
        if kind is bool:
            readers[name] = _flag
        elif name == "catalog":
            readers[name] = _optional_text
        elif kind is str:
            readers[name] = _text
        elif kind == tuple[str, ...]:
            readers[name] = _texts
        elif kind == Mapping[str, str]:
            readers[name] = _pairs
        else:
            readers[name] = _choice(*options)
    return readers


def _path(base: Path) -> _Reader:
    return lambda value: base / Path(parse_local_path(_text(value))).expanduser()


def _place(base: Path, *, is_table: bool) -> _Reader:
    def read(value: Any) -> Any:
        place = parse_place(_text(value), is_table=is_table)
        return place if isinstance(place, StorePlace) else base / place.expanduser()

    return read


def _pipeline_readers(base: Path) -> dict[str, tuple[str, _Reader]]:
    """Return the field and reader of each pipeline setting, by the name in the file."""
    plain: dict[str, _Reader] = {
        "source": _text, "topics": _texts, "metadata": _texts, "kafka": _pairs, "topic_tables": _pairs,
        "on_missing_schema": _choice(*get_args(OnMissingSchema)), "delayed": _text, "dead_letter": _text,
        "max_parked_count": _count, "atomic": _flag, "take_over": _flag, "accept_recreated": _flag, "accept_loss": _flag,
        "on_incomplete_transaction": _choice(*get_args(OnIncompleteTransaction)),
        "max_parked_bytes": _size, "max_dead_rate": _share, "dead_rate_messages": _count, "once": _flag,
        "metrics_otlp": _flag, "tracing": _flag,
        "max_messages_per_batch": _count, "max_bytes_per_batch": _size, "spark": _session_settings,
    }  # fmt: skip
    times = (
        "schema_wait", "transaction_wait", "max_parked_age", "tombstones_kept", "compact_every", "vacuum_every", "vacuum_kept",
        "load_gap", "trigger_every",
    )  # fmt: skip
    readers = {name: (name, reader) for name, reader in plain.items()}
    readers |= {name: (name, _place(base, is_table=name in TABLE_PLACES)) for name in PATH_SETTINGS}
    return readers | {name: (f"{name}_us", _duration) for name in times}


def _registry_readers(base: Path) -> dict[str, _Reader]:
    texts = dict.fromkeys(("url", "user", "password", "token"), _text)
    return {**texts, "directory": _path(base), "ca_file": _path(base), "timeout_ms": _count, "retries": _count}


def _merge_readers(base: Path) -> dict[str, _Reader]:
    sizes = dict.fromkeys(("rewrite_below", "key_index_size"), _size)
    return {"strategy": _choice(*get_args(MergeStrategy)), **sizes, "key_index": _path(base)}


def _catalog(value: Any) -> str | dict[str, str]:
    return _text(value) if isinstance(value, str) else _dotted_settings(value, '[iceberg.catalog], for example type = "rest"')


_ICEBERG_READERS: Final[dict[str, _Reader]] = {
    "catalog": _catalog, "namespace": _text, "table": _text, "tables": _texts, "snapshots": _count,
}  # fmt: skip
_STORAGE_READERS: Final[dict[str, tuple[str, _Reader]]] = {
    **{name: (name, _text) for name in (item.name for item in fields(StorageSettings)) if name not in ("path_style", "retry_us")},
    "path_style": ("path_style", _flag),
    "retry": ("retry_us", _duration),
}
_FORMAT_READERS: Final[dict[str, _Reader]] = {"data": _text, "before_data": _text, "headers": _text, "fields": _pairs}
_DEBEZIUM_READERS: Final[dict[str, _Reader]] = {
    "topics": _texts, "placeholder": _text, "sequence": _texts, "flattened": _text,
}  # fmt: skip
_SECTIONS: Final = (
    "include", "exclude", "defaults", "table", "registry", "format", "debezium", "storage", "merge", "iceberg",
)  # fmt: skip


def load_config(path: Path, overrides: Mapping[str, Any] | None = None) -> ReplicateConfig:
    """Return the configuration from a file.

    Args:
        overrides: Fields of ReplicateConfig, from the command line, that override the file.

    Raises:
        InvalidOptionError: settings are invalid; the error lists all problems with line numbers.
        StorageError: the file cannot be read.
    """
    text, document = _read_document(path)
    return _SettingsLoader(path, text).load(document, dict(overrides or {}))


def load_checkpoint(path: Path, given: Place | None = None) -> Place:
    """Return the location of a pipeline's checkpoint, with the settings of its store, from a configuration file.

    The file's other settings are not read.

    Args:
        given: A checkpoint that overrides the checkpoint in the file, or None.

    Raises:
        InvalidOptionError: the file has no checkpoint, or the checkpoint or [storage] is invalid.
        StorageError: the file cannot be read.
    """
    text, document = _read_document(path)
    return _SettingsLoader(path, text).load_checkpoint(document, given)


def _read_document(path: Path) -> tuple[str, dict[str, Any]]:
    try:
        text = path.read_text()
        return text, tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidOptionError(
            f"the file is not TOML: {error}", where=str(path), advice="See https://toml.io for the syntax"
        ) from None
    except UnicodeDecodeError as error:
        raise InvalidOptionError(f"the file is not UTF-8: {error}", where=str(path)) from None
    except OSError as error:
        raise StorageError(f"the configuration cannot be read: {error.strerror}", where=str(path)) from error


class _SettingsLoader:
    """Reads one file; `problems` are (line, setting, problem)."""

    def __init__(self, path: Path, text: str) -> None:
        self._path = path
        self._lines = _find_lines(text)
        self._problems: list[tuple[int, str, str]] = []

    def load(self, document: dict[str, Any], overrides: dict[str, Any]) -> ReplicateConfig:
        readers = _pipeline_readers(self._path.absolute().parent)
        self._refuse_unknown(document, (*readers, *_SECTIONS), ())
        values: dict[str, Any] = {}
        names = {}
        for name, (field, reader) in readers.items():
            names[field] = name
            if name in document:
                self._read(values, field, reader, document[name], (name,))
        merge = self._section(document, "merge", _merge_readers(self._path.absolute().parent)) or {}
        strategy = {"merge_strategy": merge.pop("strategy")} if "strategy" in merge else {}
        if merge:
            self._build(values, "merge", MergeSettings, merge)
        values["rules"] = self._rules(document, strategy)
        registry = self._section(document, "registry", _registry_readers(self._path.absolute().parent))
        if registry is not None:
            self._build(values, "registry", RegistrySettings, registry)
        self._read_storage(document, values)
        iceberg = self._section(document, "iceberg", _ICEBERG_READERS)
        if iceberg is not None:
            self._build(values, "iceberg", IcebergSettings, {"catalog": "", **iceberg})
        layout = self._section(document, "format", _FORMAT_READERS)
        if layout is not None:
            for name in layout.get("fields", {}):
                self._check_name(name, HEADER_FIELDS, ("format", "fields", name))
            self._build(values, "format", MessageFormat, layout)
        debezium = self._section(document, "debezium", _DEBEZIUM_READERS)
        if debezium is not None:
            self._build(values, "debezium", DebeziumSettings, debezium)
        values |= overrides
        for field in ("source", "tables", "checkpoint"):
            if field not in values and not any(setting == field for _, setting, _ in self._problems):
                self._problems.append((0, field, "the setting is missing"))
        for problem in find_problems(values):
            name = names.get(problem.setting, problem.setting)
            advice = "" if problem.advice is None else f". {problem.advice}"
            if not any(setting == name for _, setting, _ in self._problems):
                self._note((name,), f"{problem.what}{advice}")
        self._raise()
        return ReplicateConfig(**values)

    def load_checkpoint(self, document: dict[str, Any], given: Place | None) -> Place:
        values: dict[str, Any] = {} if given is None else {"checkpoint": given}
        if given is None and "checkpoint" in document:
            self._read(
                values,
                "checkpoint",
                _place(self._path.absolute().parent, is_table=False),
                document["checkpoint"],
                ("checkpoint",),
            )
        elif given is None:
            self._note(("checkpoint",), "the setting is missing")
        self._read_storage(document, values)
        self._raise()
        place: Place = bind(values["checkpoint"], values.get("storage", StorageSettings()))
        return place

    def _read_storage(self, document: dict[str, Any], values: dict[str, Any]) -> None:
        storage = self._section(document, "storage", {name: reader for name, (_, reader) in _STORAGE_READERS.items()})
        if storage is not None:
            given = {_STORAGE_READERS[name][0]: value for name, value in storage.items()}
            self._build(values, "storage", StorageSettings, given)

    def _rules(self, document: dict[str, Any], of_all: dict[str, Any]) -> TableRules:
        readers = _table_readers()
        patterns: dict[str, Any] = {}
        for name in ("include", "exclude"):
            if name in document:
                self._read(patterns, name, _texts, document[name], (name,))
        defaults = self._section(document, "defaults", readers) or {}
        self._check_table(defaults, ("defaults",))
        rules = []
        tables = document.get("table", {})
        if not isinstance(tables, dict):
            self._note(("table",), 'the setting must have one section per pattern, such as [table."shop.*"]')
            tables = {}
        for pattern, section in tables.items():
            found = self._section({pattern: section}, pattern, readers, ("table",)) or {}
            self._check_table(found, ("table", pattern))
            rules.append(TableRule(pattern, found))
        return TableRules(defaults=TableSettings(**of_all | defaults), rules=tuple(rules), **patterns)

    def _check_table(self, settings: dict[str, Any], place: tuple[str, ...]) -> None:
        for name, what in find_table_problems(settings):
            self._note((*place, name), what)

    def _section(
        self, document: dict[str, Any], name: str, readers: Mapping[str, _Reader], place: tuple[str, ...] = ()
    ) -> dict[str, Any] | None:
        if name not in document:
            return None
        section = document[name]
        if not isinstance(section, dict):
            self._note((*place, name), f"the setting must be a section, [{'.'.join((*place, name))}]")
            return None
        self._refuse_unknown(section, tuple(readers), (*place, name))
        values: dict[str, Any] = {}
        for key, reader in readers.items():
            if key in section:
                self._read(values, key, reader, section[key], (*place, name, key))
        return values

    def _build(self, values: dict[str, Any], name: str, kind: type, found: dict[str, Any]) -> None:
        known = {item.name for item in fields(kind)}
        try:
            values[name] = kind(**{key: value for key, value in found.items() if key in known})
        except InvalidOptionError as error:
            self._note((name,), error.what if error.advice is None else f"{error.what}. {error.advice}")

    def _read(self, values: dict[str, Any], field: str, reader: _Reader, value: Any, place: tuple[str, ...]) -> None:
        try:
            values[field] = reader(value)
        except InvalidOptionError as error:
            self._note(place, error.what if error.advice is None else f"{error.what}. {error.advice}")
        except ValueError as error:
            self._note(place, str(error))

    def _refuse_unknown(self, section: Mapping[str, Any], known: tuple[str, ...], place: tuple[str, ...]) -> None:
        for name in section:
            self._check_name(name, known, (*place, name))

    def _check_name(self, name: str, known: tuple[str, ...], place: tuple[str, ...]) -> None:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            self._note(place, f"the setting does not exist{f'; did you mean {close[0]}?' if close else ''}")

    def _note(self, place: tuple[str, ...], what: str) -> None:
        line = next((self._lines[place[:size]] for size in range(len(place), 0, -1) if place[:size] in self._lines), 0)
        self._problems.append((line, ".".join(place), what))

    def _raise(self) -> None:
        if not self._problems:
            return
        lines = [f"{self._path}:{line}: {setting}: {what}" if line else f"{self._path}: {setting}: {what}"
                for line, setting, what in sorted(self._problems)]  # fmt: skip
        count = len(lines)
        head = "a setting cannot be used" if count == 1 else f"{count} settings cannot be used"
        raise InvalidOptionError(f"{head}:\n  " + "\n  ".join(lines))


_KEY: Final = r"""(?:"(?:[^"\\]|\\.)*"|'[^']*'|[A-Za-z0-9_-]+)"""
_DOTTED: Final = rf"{_KEY}(?:\s*\.\s*{_KEY})*"
_HEAD: Final = re.compile(rf"\s*\[\s*({_DOTTED})\s*\]")
_SETTING: Final = re.compile(rf"\s*({_DOTTED})\s*=")


def _find_lines(text: str) -> dict[tuple[str, ...], int]:
    """Return the line (from 1) at which each section and setting begins, by full name; for error messages only."""
    lines: dict[tuple[str, ...], int] = {}
    section: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), start=1):
        head = _HEAD.match(line)
        if head is not None:
            section = _parts(head[1])
            lines.setdefault(section, number)
            continue
        setting = _SETTING.match(line)
        if setting is not None:
            lines.setdefault((*section, *_parts(setting[1])), number)
    return lines


def _parts(dotted: str) -> tuple[str, ...]:
    return tuple(key[1:-1] if key[0] in "\"'" else key for key in re.findall(_KEY, dotted))
