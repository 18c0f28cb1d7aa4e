"""Signature: the source of each parameter's value, determined once, when the handler is registered.

message: hs.ReceivedMessage                      the message; also hs.DecodedMessage[Order], with its value
headers: hs.Headers                              the message's headers
attempt: hs.uint8                                the header `attempt` as a HeaderValue; the header must be a uint8
attempt: Annotated[int, hs.uint8]                the Python value of the header `attempt`, which must be a uint8
trace: Annotated[str, hs.string, "trace.id"]     the header `trace.id`, whose name differs from the parameter name
source: hs.HeaderValue | None = None             the header `source`, of any kind; None if it is missing
order: Order                                     the decoded payload; at most one parameter
"""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, Final, get_args, get_origin, is_typeddict

from headstream.client.consumer.decoding import DecodedMessage, place_of
from headstream.core.model.constructors import KindType
from headstream.core.model.header_values import HeaderValue
from headstream.core.model.headers import Headers
from headstream.core.model.message import Message, ReceivedMessage
from headstream.errors import HeaderError, HeadstreamError, InvalidInputError, InvalidOptionError, MissingExtraError
from headstream.serializers import Serializer, json, msgspec, pydantic

_SCALARS: Final = (str, int, float, bool, complex, bytearray, memoryview, object)
_NO_DEFAULT: Final = inspect.Parameter.empty


@dataclass(frozen=True, slots=True)
class _Header:
    """A parameter that receives a header: of any kind if `kind` is None, and as a Python value if `is_plain` is True."""

    key: str
    kind: KindType | None
    is_plain: bool
    default: Any

    def get(self, message: ReceivedMessage, place: str) -> Any:
        value = message.headers.get(self.key)
        if value is None:
            if self.default is _NO_DEFAULT:
                raise HeaderError(
                    f"the message has no header {self.key!r}",
                    where=place,
                    advice="Add a default to the parameter, such as `= None`",
                )
            return self.default
        if self.kind is not None and not isinstance(value, self.kind):
            raise HeaderError(
                f"the header {self.key!r} is {value.kind_name}, but {self.kind.__name__.rstrip('_')} was expected",
                where=place,
                advice="Send a header of that kind, or write hs.HeaderValue for any kind",
            )
        return value.value if self.is_plain else value


class Signature:
    """The parameters and the result of a handler.

    Args:
        decode: The user's payload decoder; None derives the decoder from the parameter's type.

    Attributes:
        decode: The payload decoder; None if no parameter receives a payload.

    Raises:
        InvalidInputError: a parameter cannot be supplied; the message contains the reason and a correct example.
    """

    def __init__(self, function: Callable[..., Any], decode: Any = None) -> None:
        self.function = function
        self.where = f"{function.__module__}.{function.__qualname__}"
        self.decode = decode
        self._messages: list[str] = []
        self._all_headers: list[str] = []
        self._headers: dict[str, _Header] = {}
        self._payload: tuple[str, bool] | None = None
        hints = self._hints()
        self._result = _split_optional(hints.get("return", inspect.Signature.empty))[0]
        for parameter in inspect.signature(function).parameters.values():
            with _placing(f"parameter {parameter.name!r} of {self.where}"):
                self._add(parameter, hints)

    def _hints(self) -> dict[str, Any]:
        try:
            return typing.get_type_hints(self.function, include_extras=True)
        except (NameError, TypeError) as error:
            raise InvalidInputError(
                f"an annotation cannot be evaluated: {error}",
                where=self.where,
                advice="Define and import the types in the module, outside functions and `if TYPE_CHECKING`",
            ) from error

    def _add(self, parameter: inspect.Parameter, hints: dict[str, Any]) -> None:
        name = parameter.name
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise InvalidInputError("a handler must have only named parameters", advice="Omit *, ** and / in the signature")
        if name not in hints:
            raise InvalidInputError(
                "the parameter has no annotation",
                advice="Write `: hs.ReceivedMessage` for the message, a kind such as `: hs.uint8` for a header, "
                "or the type of the payload",
            )
        annotation, is_optional = _split_optional(hints[name])
        extras = get_args(annotation)[1:] if get_origin(annotation) is Annotated else ()
        plain = get_args(annotation)[0] if extras else annotation
        plain_or_kind = next((extra for extra in extras if isinstance(extra, KindType)), None)
        kind = plain if isinstance(plain, KindType) else plain_or_kind
        origin = get_origin(plain) or plain
        if origin in (ReceivedMessage, Message, DecodedMessage):
            self._messages.append(name)
            if origin is DecodedMessage:
                self.decode = self.decode or _serializer_of(*get_args(plain))
        elif plain is Headers:
            self._all_headers.append(name)
        elif kind is not None or plain is HeaderValue:
            key = next((extra for extra in extras if isinstance(extra, str)), name)
            default = None if is_optional and parameter.default is _NO_DEFAULT else parameter.default
            self._headers[name] = _Header(key, kind, plain is not kind and kind is not None, default)
        elif self._payload is not None:
            raise InvalidInputError(
                f"{self._payload[0]!r} already receives the payload", advice="For a header, write its kind, as in hs.uint8"
            )
        else:
            self._payload = name, is_optional
            self.decode = self.decode or _serializer_of(plain)

    def arguments(self, message: ReceivedMessage) -> dict[str, Any]:
        """Return the handler's arguments for a message, whose consumer must use `decode`.

        Raises:
            HeaderError: a header is missing or has the wrong kind.
            SerializerError: the payload is null, and the parameter is not optional.
        """
        arguments: dict[str, Any] = dict.fromkeys(self._messages, message)
        for name in self._all_headers:
            arguments[name] = message.headers
        if self._headers:
            place = place_of(message)
            for name, header in self._headers.items():
                arguments[name] = header.get(message, place)
        if self._payload is not None:
            name, is_optional = self._payload
            decoded: Any = message
            arguments[name] = None if message.payload is None and is_optional else decoded.value
        return arguments

    def make_encoder(self, encode: Any) -> Any:
        """Return the user's result encoder, or the encoder for the result type; InvalidInputError for other types."""
        if encode is not None:
            return encode
        if self._result in (inspect.Signature.empty, type(None)):
            raise InvalidInputError(
                "produce= sends the result of the handler, but the handler has no return annotation",
                where=self.where,
                advice="Annotate the result, as in `-> Invoice`, or omit produce=",
            )
        if isinstance(self._result, type) and issubclass(self._result, Message):
            return _serializer_of(bytes)  # Member._send() does not call this serializer
        with _placing(f"result of {self.where}"):
            return _serializer_of(self._result)


@contextmanager
def _placing(where: str) -> Iterator[None]:
    """Add the names of the handler and the parameter to errors."""
    try:
        yield
    except HeadstreamError as error:
        error.where = where
        raise


def _split_optional(annotation: Any) -> tuple[Any, bool]:
    if get_origin(annotation) not in (typing.Union, types.UnionType):
        return annotation, False
    rest = [each for each in get_args(annotation) if each is not type(None)]
    return typing.Union[tuple(rest)], len(rest) < len(get_args(annotation))


def _serializer_of(kind: Any) -> Serializer[Any]:
    """Return the serializer of a type: bytes unchanged, any other type as JSON.

    Raises:
        InvalidInputError: the type describes neither a payload nor a header.
        MissingExtraError: neither msgspec nor pydantic is installed, and the type is not a plain dict, list or bytes.
    """
    if kind is bytes:
        return Serializer("bytes", lambda value: value, bytes)
    if kind in (Any, dict, list, dict[str, Any], list[Any]):
        return json()
    if hasattr(kind, "__pydantic_validator__"):  # pydantic's models and dataclasses
        return pydantic(kind)
    if kind in _SCALARS:
        raise InvalidInputError(
            f"{kind.__name__} is not a payload type or a header kind",
            advice="Write bytes or a type such as a dataclass for the payload; for a header, write its kind, "
            "as in `attempt: hs.uint8` or `attempt: Annotated[int, hs.uint8]`",
        )
    is_typed = dataclasses.is_dataclass(kind) or is_typeddict(kind) or hasattr(kind, "__struct_fields__")
    if not is_typed and get_origin(kind) is None:
        raise InvalidInputError(
            f"{getattr(kind, '__name__', kind)!r} is not a payload type",
            advice="Use a dataclass, a TypedDict, a msgspec.Struct or a pydantic model, or set decode= or encode=",
        )
    try:
        return msgspec(kind)
    except MissingExtraError:
        return pydantic(kind)
    except (TypeError, RuntimeError, NameError) as error:
        raise InvalidOptionError(f"{kind} cannot be a payload: {error}", advice="Set decode= or encode=") from error
