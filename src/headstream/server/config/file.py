"""Reads the sources of a configuration, and formats the resulting values as a file.

    defaults  <  file (TOML)  <  variables in a file (.env)  <  environment variables  <  command line

IGGY_TCP_ADDRESS and HEADSTREAM_TCP_ADDRESS set `tcp.address`; HEADSTREAM_TCP_ADDRESS takes precedence.
HEADSTREAM_MAX_CONNECTIONS sets `headstream.max_connections`. Values are numbers, `true`, `false` and `[a,b]` for lists. Other
variables with these prefixes, such as HEADSTREAM_URL, are ignored. A variable that starts with a section's name but names no key
is rejected like an unknown key in the file.
"""

from __future__ import annotations

import difflib
import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from headstream.errors import InvalidOptionError, StorageError
from headstream.server.config.keys import KEYS, SECRETS

_PREFIXES: Final = ("IGGY_", "HEADSTREAM_")
_OWN: Final = "headstream."
_SECTIONS: Final = tuple(sorted({key.split(".")[0].upper() for key in KEYS if not key.startswith(_OWN)}))
_MASK: Final = "******"


class GivenValue(NamedTuple):
    """A value from one source.

    Args:
        key: The full name of the key, which may be unknown.
        where: The file, variable or option that contains the value.
    """

    key: str
    value: Any
    where: str


def read_file(path: Path) -> list[GivenValue]:
    """Return the values of a file; InvalidOptionError if the file is not TOML, StorageError if it cannot be read."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidOptionError(
            f"the file is not TOML: {error}", where=str(path), advice="See https://toml.io for the syntax"
        ) from None
    except OSError as error:
        raise StorageError(f"the configuration cannot be read: {error.strerror}", where=str(path)) from error
    return [GivenValue(key, value, f"{path}: {key}") for key, value in _flatten(document, "")]


def _flatten(table: Mapping[str, Any], before: str) -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        if isinstance(value, dict) and before + name not in KEYS:
            yield from _flatten(value, f"{before}{name}.")
        else:
            yield before + name, value


def read_variables(environ: Mapping[str, str]) -> list[GivenValue]:
    """Return the values of environment variables; variables with Iggy's prefix come first."""
    given = []
    for prefix in _PREFIXES:
        known = {_variable(prefix, key): key for key in KEYS}
        for name, text in sorted(environ.items()):
            if not name.startswith(prefix):
                continue
            rest = name.removeprefix(prefix)
            key = known.get(name)
            if key is None and any(rest.startswith(f"{section}_") for section in _SECTIONS):
                key = rest.lower().replace("_", ".", 1)
            if key is not None:
                given.append(GivenValue(key, _value_of(key, text), name))
    return given


def _variable(prefix: str, key: str) -> str:
    if key in ("headstream.root_username", "headstream.root_password") or prefix == "HEADSTREAM_":
        key = key.removeprefix(_OWN)
    return prefix + key.upper().replace(".", "_")


def _value_of(key: str, text: str) -> Any:
    """Convert a variable's string to the type of the key's default."""
    default = KEYS[key].default if key in KEYS else ""
    if isinstance(default, bool):
        return {"true": True, "false": False}.get(text.strip().lower(), text)
    if isinstance(default, int):
        return int(text) if text.strip().isdecimal() else text
    if isinstance(default, list):
        inner = text.strip().removeprefix("[").removesuffix("]")
        return [item.strip().strip("\"'") for item in inner.split(",") if item.strip()]
    return text


def unknown(given: GivenValue) -> str:
    """Return the error message for an unknown key."""
    name = given.key.rpartition(".")[2]
    close = difflib.get_close_matches(given.key, KEYS, n=1, cutoff=0.7)
    close = close or [key for key in KEYS if key.rpartition(".")[2] == name][:1]
    return f"unknown setting{f'; did you mean {close[0]}?' if close else ''}"


def format_toml(values: Iterable[tuple[str, Any]]) -> str:
    """Return values (by full name, in any order) as the content of a TOML file; secrets are masked."""
    lines, section = [], ""
    for key, value in sorted(values, key=lambda item: item[0].rpartition(".")[::2]):
        place, _, name = key.rpartition(".")
        if place != section:
            lines.append(f"\n[{place}]")
            section = place
        lines.append(f"{name} = {_to_toml(_MASK if key in SECRETS and value else value)}")
    return "\n".join(lines).lstrip("\n") + "\n"


def _to_toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_to_toml, value))}]"
    return str(value) if isinstance(value, (int, float)) else json.dumps(str(value)).replace("\x7f", "\\u007f")
