"""Creates interceptors from names, as in the variable HEADSTREAM_INTERCEPTORS:

    tracing?rate=0.01,auditing?application=billing,compression?min_bytes=1024,encryption?key_file=/etc/headstream/keys.json
    tracing?on_error=raise,mycompany.hooks:Stamp?region=eu

A name is an interceptor of this package, or `module:attribute`. The attribute is an interceptor, or a class or function that is
called with the options as strings and returns an interceptor. `on_error` and `dead_letter` set the interceptor's policy.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl

from headstream.errors import HeadstreamError, InvalidOptionError
from headstream.interceptors.auditing import Auditing
from headstream.interceptors.compression import Compression
from headstream.interceptors.encryption import Encryption
from headstream.interceptors.interceptor import HOOKS, guard
from headstream.interceptors.metrics import Metrics
from headstream.interceptors.tracing import Tracing

_WHERE: Final = "HEADSTREAM_INTERCEPTORS"
_POLICY: Final = ("on_error", "dead_letter")


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("the value must be true or false")
    return text.lower() == "true"


_SHIPPED: Final[Mapping[str, tuple[Callable[..., object], Mapping[str, Callable[[str], Any]]]]] = {
    "tracing": (Tracing, {"rate": float}),
    "metrics": (Metrics, {"otlp": _boolean}),
    "auditing": (Auditing, {"application": str, "stamp": _boolean}),
    "compression": (Compression, {"algorithm": str, "min_bytes": int, "level": int}),
    "encryption": (Encryption.from_file, {"key_file": str, "required": _boolean}),
}


def make_interceptors(text: str) -> list[object]:
    """Return the interceptors for a string of names and options, in order.

    Raises:
        InvalidOptionError: a name or an option is unknown or invalid.
        MissingExtraError: the library of an interceptor is not installed.
    """
    return [_make(part.strip()) for part in text.split(",") if part.strip()]


def _make(part: str) -> object:
    name, _, query = part.partition("?")
    options = dict(parse_qsl(query, keep_blank_values=True, strict_parsing=False))
    policy = {key: options.pop(key) for key in _POLICY if key in options}
    try:
        found = _make_other(name, options) if ":" in name else _make_shipped(name, options)
    except HeadstreamError as error:
        error.where = error.where or _WHERE
        raise
    except Exception as error:
        raise InvalidOptionError(f"{name} cannot be created: {type(error).__name__}: {error}", where=_WHERE) from error
    if policy:
        found = guard(found, on_error=policy.get("on_error", "dead_letter"), dead_letter=policy.get("dead_letter"))
    return found


def _make_shipped(name: str, options: dict[str, str]) -> object:
    if name not in _SHIPPED:
        raise InvalidOptionError(
            f"there is no interceptor {name!r}", advice=f"Use {', '.join(_SHIPPED)}, or module:attribute for another interceptor"
        )
    make, known = _SHIPPED[name]
    values: dict[str, Any] = {}
    for key, text in options.items():
        if key not in known:
            names = ", ".join((*known, *_POLICY))
            raise InvalidOptionError(f"the interceptor {name} has no option {key!r}", advice=f"Use one of {names}")
        try:
            values[key] = known[key](text)
        except ValueError:
            raise InvalidOptionError(f"the option {key} of the interceptor {name} has the invalid value {text!r}") from None
    return make(**values)


def _make_other(name: str, options: dict[str, str]) -> object:
    module, _, attribute = name.partition(":")
    found: Any = importlib.import_module(module)
    for part in attribute.split("."):
        found = getattr(found, part)
    is_made = not isinstance(found, type) and any(hasattr(found, hook) for hook in HOOKS)
    if is_made and options:
        raise InvalidOptionError(f"{name} is an interceptor object, so it takes no options")
    return found if is_made else found(**options)
