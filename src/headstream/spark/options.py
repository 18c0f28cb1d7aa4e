"""The options of `format("headstream")`: names, meanings, and what contradicts what.

url                    file:///var/lib/shop; load(url) says the same
subscribe              shop/orders,shop/returns
startingOffsets        earliest (default) | latest (streams) | {"shop/orders": {"1": 23, "2": -2}}
endingOffsets          latest (default) | {"shop/orders": {"1": 50, "2": -1}}      batch only; -2 earliest, -1 latest
headers                variant (default) | none | binary
states                 available (default) | available,poisoned | all
maxOffsetsPerTrigger   messages of a micro-batch at most                           streams only
minPartitions          tasks at least
failOnDataLoss         true (default) | false
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args
from urllib.parse import unquote, urlsplit

from headstream.errors import InvalidInputError, InvalidOptionError, InvalidUrlError
from headstream.model.identifiers import TopicName
from headstream.model.message import MessageState, parse_state
from headstream.spark.offsets import EARLIEST, LATEST, Place, StartingPoint

__all__ = ["COLUMN_NAMES", "HeaderShape", "SourceOptions", "parse_options"]

HeaderShape: TypeAlias = Literal["variant", "none", "binary"]
"""What becomes of the headers: a VARIANT column, no column, or a BINARY column with their bytes as stored."""

COLUMN_NAMES: Final = (
    "stream", "topic", "partition", "offset", "timestamp", "state", "id", "checksum", "key", "headers", "headers_repeated",
    "payload",
)  # fmt: skip
"""Every column there can be, in the order they have."""
_NAMES: Final = (
    "url",
    "subscribe",
    "startingOffsets",
    "endingOffsets",
    "headers",
    "columns",
    "states",
    "maxOffsetsPerTrigger",
    "minPartitions",
    "failOnDataLoss",
)
_MAX_TASKS: Final = 100_000
"""More tasks than this are a slip of the finger, and cost more than the reading."""


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What is to be read, checked.

    Args:
        directory: The log's directory.
        topics: In the order they were named.
        starting: Where to begin.
        ending: Where a batch read ends.
        headers: The shape of the header column.
        columns: What is decoded, in this order.
        states: Codes of the states that are read, or None for all.
        max_offsets: Messages of a micro-batch at most, or None.
        min_partitions: Tasks at least, or None.
        fail_on_data_loss: Whether offsets that are gone are an error.
        given: The names of the options that were given, lower-case.
    """

    directory: str
    topics: tuple[TopicName, ...]
    starting: StartingPoint
    ending: StartingPoint
    headers: HeaderShape
    columns: tuple[str, ...]
    states: frozenset[int] | None
    max_offsets: int | None
    min_partitions: int | None
    fail_on_data_loss: bool
    given: frozenset[str]

    def check_batch(self) -> None:
        """Check that nothing is asked for that only a stream can do.

        Raises:
            InvalidOptionError: something is.
        """
        if "maxoffsetspertrigger" in self.given:
            raise InvalidOptionError("maxOffsetsPerTrigger is for streams", advice="Bound a batch read by endingOffsets")
        if self.starting == "latest":
            raise InvalidOptionError(
                "startingOffsets=latest leaves a batch nothing to read", advice="Use earliest, or offsets by partition"
            )

    def check_stream(self) -> None:
        """Check that nothing is asked for that only a batch read can do.

        Raises:
            InvalidOptionError: something is.
        """
        if "endingoffsets" in self.given:
            raise InvalidOptionError("endingOffsets is for batch reads", advice="A stream ends with trigger(availableNow=True)")


def parse_options(options: Mapping[str, str]) -> SourceOptions:
    """Return what options mean.

    Args:
        options: As Spark gives them; case does not matter in names.

    Raises:
        InvalidOptionError: an option is unknown, missing, or has a value that it cannot have; named by the text.
        InvalidUrlError: the URL names nothing that can be read here.
    """
    given = {name.lower(): value for name, value in options.items()}
    known = {name.lower(): name for name in _NAMES}
    for name in given:
        if name not in known and name != "path":
            close = difflib.get_close_matches(name, known, n=1)
            advice = f"Did you mean {known[close[0]]}?" if close else f"It has {', '.join(_NAMES)}"
            raise InvalidOptionError(f"unknown option {name!r} of the headstream source", advice=advice)
    topics = _topics(given.get("subscribe", ""))
    headers = _headers(given.get("headers", "variant"))
    return SourceOptions(
        directory=_directory(given),
        topics=topics,
        starting=_point(given.get("startingoffsets", "earliest"), "startingOffsets", topics),
        ending=_point(given.get("endingoffsets", "latest"), "endingOffsets", topics),
        headers=headers,
        columns=_columns(given.get("columns"), headers),
        states=_states(given.get("states", "available")),
        max_offsets=_number(given, "maxOffsetsPerTrigger", (1 << 63) - 1),
        min_partitions=_number(given, "minPartitions", _MAX_TASKS),
        fail_on_data_loss=_truth(given.get("failondataloss", "true"), "failOnDataLoss"),
        given=frozenset(given),
    )


def _directory(given: Mapping[str, str]) -> str:
    if "url" in given and "path" in given:
        raise InvalidOptionError("url and load(path) both say what to read", advice="Give one of them")
    url = given.get("url") or given.get("path")
    if not url:
        raise InvalidOptionError(
            "the option url is missing", advice='Say what to read, as .option("url", "file:///var/lib/shop")'
        )
    parts = urlsplit(url)
    if parts.scheme != "file":
        raise InvalidUrlError(
            f"{url!r} is not a log that Spark can read", advice="Give the directory of an embedded log, as file:///var/lib/shop"
        )
    path = unquote(parts.path)
    if parts.netloc not in ("", "localhost") or not path.startswith("/") or parts.query or parts.fragment:
        raise InvalidUrlError(f"{url!r} names no directory of this machine", advice="Write file:// and an absolute path")
    return path.rstrip("/") or "/"


def _topics(text: str) -> tuple[TopicName, ...]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise InvalidOptionError(
            "the option subscribe is missing", advice='Name one topic or several, as .option("subscribe", "shop/orders")'
        )
    try:
        topics = tuple(TopicName.parse(name) for name in names)
    except InvalidInputError as error:
        raise InvalidOptionError(f"subscribe: {error}") from error
    if len(set(topics)) < len(topics):
        raise InvalidOptionError(f"subscribe names a topic twice: {text}")
    return topics


def _point(text: str, option: str, topics: tuple[TopicName, ...]) -> StartingPoint:
    word = text.strip().lower()
    if word == "earliest" and option == "startingOffsets":
        return "earliest"
    if word == "latest":
        return "latest"
    if word == "earliest":
        raise InvalidOptionError("endingOffsets=earliest leaves nothing to read", advice="Use latest, or offsets by partition")
    advice = 'Use earliest, latest or offsets by partition, as {"shop/orders": {"1": 23, "2": -2}}'
    try:
        value = json.loads(text)
        point = {
            Place(topic, int(number)): offset for topic, partitions in value.items() for number, offset in partitions.items()
        }
    except (ValueError, AttributeError, TypeError):
        raise InvalidOptionError(f"{option} cannot be read: {text!r}", advice=advice) from None
    subscribed = {str(topic) for topic in topics}
    for place, offset in point.items():
        if type(offset) is not int or offset < EARLIEST:
            raise InvalidOptionError(f"{option}: {offset!r} is no offset of {place}", advice=advice)
        if place.topic not in subscribed:
            raise InvalidOptionError(f"{option} names topic {place.topic!r}, which subscribe does not", advice="Add it there")
        if offset == EARLIEST and option == "endingOffsets":
            raise InvalidOptionError(f"endingOffsets: -2 leaves nothing to read of {place}", advice=f"{LATEST} is the latest")
    return point


def _headers(text: str) -> HeaderShape:
    shapes: dict[str, HeaderShape] = {shape: shape for shape in get_args(HeaderShape)}
    shape = shapes.get(text.strip().lower())
    if shape is None:
        raise InvalidOptionError(f"headers={text} is no shape of headers", advice=f"Use {', '.join(shapes)}")
    return shape


def _columns(text: str | None, headers: HeaderShape) -> tuple[str, ...]:
    there = tuple(name for name in COLUMN_NAMES if headers != "none" or not name.startswith("headers"))
    if text is None:
        return there
    names = tuple(name.strip().lower() for name in text.split(",") if name.strip())
    for name in names:
        if name not in there:
            what = "headers=none leaves out" if name in COLUMN_NAMES else "the source does not have"
            raise InvalidOptionError(f"columns names {name!r}, which {what}", advice=f"There is {', '.join(there)}")
    if not names or len(set(names)) < len(names):
        raise InvalidOptionError(f"columns={text} names a column twice, or none", advice=f"There is {', '.join(there)}")
    return names


def _states(text: str) -> frozenset[int] | None:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if [name.lower() for name in names] == ["all"]:
        return None
    if not names:
        raise InvalidOptionError("states names no state", advice="Use all, or " + ", ".join(s.name.lower() for s in MessageState))
    try:
        return frozenset(parse_state(name) for name in names)
    except InvalidInputError as error:
        raise InvalidOptionError(f"states: {error}") from error


def _number(given: Mapping[str, str], option: str, maximum: int) -> int | None:
    text = given.get(option.lower())
    if text is None:
        return None
    number = int(text) if text.strip().isdecimal() else 0
    if not 1 <= number <= maximum:
        raise InvalidOptionError(f"{option}={text} is no number from 1 to {maximum}")
    return number


def _truth(text: str, option: str) -> bool:
    word = text.strip().lower()
    if word not in ("true", "false"):
        raise InvalidOptionError(f"{option}={text} is neither true nor false")
    return word == "true"
