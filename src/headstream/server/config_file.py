"""Where a configuration comes from, and the file that says what it has become.

    defaults  <  file (TOML)  <  variables of a file (.env)  <  those of the environment  <  what the command line says

IGGY_TCP_ADDRESS is `tcp.address`, and so is HEADSTREAM_TCP_ADDRESS, which wins; HEADSTREAM_MAX_CONNECTIONS is
`headstream.max_connections`. Variables have numbers, `true`, `false` and `[a,b]` for lists. Others that begin so, as
HEADSTREAM_URL does, are not the server's; one that begins like a section, and is no key of it, is refused as a key of the
file would be.
"""

from __future__ import annotations

import difflib
import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from headstream.errors import InvalidOptionError, StorageError
from headstream.server.config_keys import KEYS, SECRETS

__all__ = ["Said", "format_toml", "read_file", "read_variables", "unknown"]

_PREFIXES: Final = ("IGGY_", "HEADSTREAM_")
_OWN: Final = "headstream."
_SECTIONS: Final = tuple(sorted({key.split(".")[0].upper() for key in KEYS if not key.startswith(_OWN)}))
_MASK: Final = "******"


class Said(NamedTuple):
    """What somebody says about a key.

    Args:
        key: Its full name, which may be none that there is.
        value: As a file would spell it.
        where: The file, the variable or the option.
    """

    key: str
    value: Any
    where: str


def read_file(path: Path) -> list[Said]:
    """Return what a file says.

    Raises:
        InvalidOptionError: it is not TOML.
        StorageError: it cannot be read.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidOptionError(
            f"not TOML: {error}", where=str(path), advice="See https://toml.io for how to write it"
        ) from None
    except OSError as error:
        raise StorageError(f"the configuration cannot be read: {error.strerror}", where=str(path)) from error
    return [Said(key, value, f"{path}: {key}") for key, value in _flatten(document, "")]


def _flatten(table: Mapping[str, Any], before: str) -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        if isinstance(value, dict) and before + name not in KEYS:
            yield from _flatten(value, f"{before}{name}.")
        else:
            yield before + name, value


def read_variables(environ: Mapping[str, str]) -> list[Said]:
    """Return what variables of the environment say, those of Iggy's names first."""
    said = []
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
                said.append(Said(key, _value_of(key, text), name))
    return said


def _variable(prefix: str, key: str) -> str:
    if key in ("headstream.root_username", "headstream.root_password") or prefix == "HEADSTREAM_":
        key = key.removeprefix(_OWN)
    return prefix + key.upper().replace(".", "_")


def _value_of(key: str, text: str) -> Any:
    """Return what the text of a variable stands for, by what the key has where nobody says anything."""
    default = KEYS[key].default if key in KEYS else ""
    if isinstance(default, bool):
        return {"true": True, "false": False}.get(text.strip().lower(), text)
    if isinstance(default, int):
        return int(text) if text.strip().isdecimal() else text
    if isinstance(default, list):
        inner = text.strip().removeprefix("[").removesuffix("]")
        return [item.strip().strip("\"'") for item in inner.split(",") if item.strip()]
    return text


def unknown(said: Said) -> str:
    """Return why a key is refused that there is not."""
    name = said.key.rpartition(".")[2]
    close = difflib.get_close_matches(said.key, KEYS, n=1, cutoff=0.7)
    close = close or [key for key in KEYS if key.rpartition(".")[2] == name][:1]
    return f"there is no such setting{f'; did you mean {close[0]}?' if close else ''}"


def format_toml(values: Iterable[tuple[str, Any]]) -> str:
    """Return values as a TOML file; secrets are masked.

    Args:
        values: Full name -> value, in any order.
    """
    lines, section = [], ""
    for key, value in sorted(values, key=lambda item: item[0].rpartition(".")[::2]):
        place, _, name = key.rpartition(".")
        if place != section:
            lines.append(f"\n[{place}]")
            section = place
        lines.append(f"{name} = {_spell(_MASK if key in SECRETS and value else value)}")
    return "\n".join(lines).lstrip("\n") + "\n"


def _spell(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_spell, value))}]"
    return str(value) if isinstance(value, (int, float)) else json.dumps(str(value)).replace("\x7f", "\\u007f")
