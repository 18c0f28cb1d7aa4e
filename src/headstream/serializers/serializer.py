"""Serializer: functions that convert values to payloads and back, and the errors that describe a failure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeAlias, TypeVar

from headstream.errors import HeadstreamError, InvalidOptionError, MissingExtraError, SerializerError

_T = TypeVar("_T")
_SHOWN_CHARACTERS: Final = 300
"""Maximum length of a library's error text, which can repeat the entire value."""


@dataclass(frozen=True, slots=True)
class Serializer(Generic[_T]):
    """A format for values.

    Args:
        name: Name of the format in errors.
        encode: Converts a value to a payload.
        decode: Converts a payload to a value; any exception means that the payload cannot be decoded.
    """

    name: str
    encode: Callable[[_T], bytes]
    decode: Callable[[bytes], _T]


Encode: TypeAlias = Serializer[_T] | Callable[[_T], bytes]
Decode: TypeAlias = Serializer[_T] | Callable[[bytes], _T]


def encoder_of(encode: Any) -> tuple[str, Callable[[Any], bytes]]:
    """Return name and function of an `encode=` argument; InvalidOptionError if it is not a Serializer or callable."""
    return _function_of("encode", encode)


def decoder_of(decode: Any) -> tuple[str, Callable[[bytes], Any]]:
    """Return name and function of a `decode=` argument; InvalidOptionError if it is not a Serializer or callable."""
    return _function_of("decode", decode)


def _function_of(option: str, given: Any) -> tuple[str, Callable[[Any], Any]]:
    if isinstance(given, Serializer):
        return given.name, getattr(given, option)
    if not callable(given):
        raise InvalidOptionError(
            f"{option} must be a function or a serializer, not {given!r}", advice="Pass for example serializers.json()"
        )
    return getattr(given, "__qualname__", type(given).__name__), given


def explain_failure(error: Exception, action: str, name: str, *, where: str, advice: str) -> SerializerError:
    """Return the error for a value that cannot be encoded or decoded.

    Args:
        action: `encoded` or `decoded`.
        where: The topic; for a received message, also the partition and offset.
    """
    what = error.what if isinstance(error, HeadstreamError) else f"{type(error).__name__}: {error}"
    found = SerializerError(f"the value cannot be {action} by {name}: {what[:_SHOWN_CHARACTERS]}", where=where, advice=advice)
    found.__cause__ = error
    return found


def missing_package(error: ImportError, extra: str) -> MissingExtraError:
    """Return the error for a serializer whose package is not installed."""
    return MissingExtraError(f"this serializer requires {error.name}", advice=f"Install headstream[{extra}]")
