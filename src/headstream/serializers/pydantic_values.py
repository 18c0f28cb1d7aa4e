"""Typed values, encoded by pydantic as JSON."""

from __future__ import annotations

from typing import TypeVar

from headstream.serializers.serializer import Serializer, missing_package

_T = TypeVar("_T")


def pydantic(of: type[_T]) -> Serializer[_T]:
    """Return a serializer that validates values of a type: a BaseModel, dataclass, TypedDict or built-in type.

    Raises:
        MissingExtraError: pydantic is not installed (the extra `pydantic`).
    """
    try:
        from pydantic import TypeAdapter
    except ImportError as error:
        raise missing_package(error, "pydantic") from None
    adapter = TypeAdapter(of)
    return Serializer(f"pydantic({getattr(of, '__name__', of)})", adapter.dump_json, adapter.validate_json)
