"""Typed values, encoded by msgspec as JSON or MessagePack."""

from __future__ import annotations

from typing import Literal, TypeVar

from headstream.errors import InvalidOptionError
from headstream.serializers.serializer import Serializer, missing_package

_T = TypeVar("_T")


def msgspec(of: type[_T], *, format: Literal["json", "msgpack"] = "json") -> Serializer[_T]:
    """Return a serializer that validates values of a type: a Struct, dataclass, TypedDict or built-in type of msgspec.

    Args:
        format: `json` or `msgpack`.

    Raises:
        MissingExtraError: msgspec is not installed (the extra `msgspec`).
        InvalidOptionError: the format is unknown.
        TypeError: msgspec does not support the type.
    """
    try:
        import msgspec as library
    except ImportError as error:
        raise missing_package(error, "msgspec") from None
    if format == "json":
        return Serializer(f"msgspec({_name(of)})", library.json.Encoder().encode, library.json.Decoder(of).decode)
    if format == "msgpack":
        return Serializer(f"msgspec({_name(of)})", library.msgpack.Encoder().encode, library.msgpack.Decoder(of).decode)
    raise InvalidOptionError(f"format must be json or msgpack, not {format!r}")


def _name(of: object) -> str:
    return getattr(of, "__name__", str(of))
