"""The options of `format("headstream")`: names, meanings and conflicts.

url                    file:///var/lib/shop, headstream://user:password@host: see log_urls.py; also set by load(url)
subscribe              shop/orders,shop/returns; alternatively subscribePattern or assign: see subscription.py
startingOffsets        earliest (default) | latest | per partition; or a time: see bounds.py
endingOffsets          latest (default) | per partition; or a time                 batch only
headers                variant (default) | array | map | binary | none
headerColumns          attempt INT, source STRING: see header_columns.py
headerMismatch         null (default) | fail: for a header that does not fit its declared type
columns                the columns to decode; all by default
states                 available (default) | available,poisoned | all
where                  a filter: attempt >= 3 AND source = 'web'
onFilterError          skip (default) | deliver | fail: for a message to which the filter cannot be applied
maxOffsetsPerTrigger   and maxBytesPerTrigger, minOffsetsPerTrigger, maxTriggerDelay: see limits.py      streams only
minPartitions          minimum number of tasks
failOnDataLoss         true (default) | false

Options that also exist in Spark's Kafka source have the same names and meanings, with one exception: by default, streams begin at
the earliest message too. The Kafka source begins at the latest message, and so silently skips messages sent before the query's
first run; Headstream does this only with startingOffsets=latest.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from headstream.core.codec.batch.results import WantedHeader
from headstream.core.filters.filter import Filter, check_states, parse_filter
from headstream.core.model.message import MessageState, parse_state
from headstream.core.model.quantities import parse_duration_us, parse_size_bytes
from headstream.errors import InvalidInputError, InvalidOptionError
from headstream.spark.connection.catalog_tables import table_error
from headstream.spark.connection.log_urls import LogLocation, parse_log
from headstream.spark.source.bounds import BOUND_OPTIONS, ENDING_OPTIONS, Bound, parse_ending, parse_starting
from headstream.spark.source.header_columns import parse_header_columns
from headstream.spark.source.limits import DEFAULT_DELAY_US, BatchLimits
from headstream.spark.source.subscription import Subscription, parse_subscription

HeaderShape: TypeAlias = Literal["variant", "array", "map", "binary", "none"]
"""The shapes of headers; see header_shapes.py."""

COLUMN_NAMES: Final = (
    "stream", "topic", "partition", "offset", "timestamp", "state", "id", "checksum", "key", "headers", "headers_repeated",
    "payload",
)  # fmt: skip
"""All columns, in order; header columns with declared types follow."""
_LIMIT_NAMES: Final = ("maxOffsetsPerTrigger", "maxBytesPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
OPTION_NAMES: Final = (
    "url",
    "subscribe",
    "subscribePattern",
    "assign",
    *BOUND_OPTIONS,
    "headers",
    "headerColumns",
    "headerMismatch",
    "columns",
    "states",
    "where",
    "onFilterError",
    *_LIMIT_NAMES,
    "minPartitions",
    "failOnDataLoss",
)
"""All read options."""
_FILTER_POLICIES: Final = {"skip": "skip", "deliver": "deliver", "fail": "raise"}
"""The values of onFilterError, and the corresponding filter policies."""
_MAX_TASKS: Final = 100_000
"""Maximum of minPartitions; a higher number is probably a typing error."""
_MAX_INT64: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class RowShape:
    """The columns of a row.

    Args:
        columns: The selected COLUMN_NAMES, in this order.
        header_columns: Headers with a column, placed after the other columns.
        fail_on_mismatch: Whether a header that does not fit its column is an error; otherwise the column is null.
    """

    columns: tuple[str, ...]
    headers: HeaderShape = "variant"
    header_columns: tuple[WantedHeader, ...] = ()
    fail_on_mismatch: bool = False


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Validated read options.

    Args:
        states: Codes of the states to read, or None for all.
        given: The names of the options that were set, in lower case.
    """

    log: LogLocation
    subscription: Subscription
    starting: Bound
    ending: Bound
    shape: RowShape
    states: frozenset[int] | None
    where: Filter | None
    limits: BatchLimits
    min_partitions: int | None
    fail_on_data_loss: bool
    given: frozenset[str]

    def check_batch(self) -> None:
        """Reject options that only streams support."""
        for option in _LIMIT_NAMES:
            if option.lower() in self.given:
                raise InvalidOptionError(f"{option} is supported only in streams", advice="Limit a batch read with endingOffsets")
        if self.starting.at == "latest":
            raise InvalidOptionError(
                "startingOffsets=latest leaves nothing to read in a batch query", advice="Use earliest, or offsets by partition"
            )

    def check_stream(self, *, has_limits: bool = True) -> None:
        """Reject the end options of batch reads and, unless `has_limits` is set, limits of micro-batches."""
        for option in _LIMIT_NAMES:
            if option.lower() in self.given and not has_limits:
                raise InvalidOptionError(
                    f"{option} requires Spark 4.2: earlier versions do not limit the micro-batches of a Python source",
                    advice="Omit the option: each micro-batch then reads up to the end of the log",
                )
        for option in ENDING_OPTIONS:
            if option.lower() in self.given:
                raise InvalidOptionError(f"{option} is only for batch reads", advice="Use trigger(availableNow=True) in a stream")


def parse_options(options: Mapping[str, str]) -> SourceOptions:
    """Return the validated read options; option names are case-insensitive."""
    given = {name.lower(): value for name, value in options.items()}
    check_no_table(given)
    known = {name.lower(): name for name in OPTION_NAMES}
    for name in given:
        if name not in known and name != "path":
            close = difflib.get_close_matches(name, known, n=1)
            advice = f"Did you mean {known[close[0]]}?" if close else f"Use one of {', '.join(OPTION_NAMES)}"
            raise InvalidOptionError(f"unknown option {name!r} of the headstream source", advice=advice)
    subscription = parse_subscription(given)
    states = parse_states(given.get("states", "available"))
    return SourceOptions(
        log=parse_log(given),
        subscription=subscription,
        starting=parse_starting(given, subscription),
        ending=parse_ending(given, subscription),
        shape=parse_shape(given),
        states=states,
        where=_filter(given, states),
        limits=_limits(given),
        min_partitions=_number(given, "minPartitions", _MAX_TASKS),
        fail_on_data_loss=_truth(given.get("failondataloss", "true"), "failOnDataLoss"),
        given=frozenset(given),
    )


def check_no_table(given: Mapping[str, str]) -> None:
    """Reject the options of a catalog table: Spark creates such a table, but Delta's catalog cannot read it."""
    if "provider" in given:
        raise table_error("CREATE TABLE ... USING headstream", given.get("url", ""))


def parse_shape(given: Mapping[str, str]) -> RowShape:
    """Return the columns of a row; option names are in lower case."""
    headers = _headers(given.get("headers", "variant"))
    columns = _columns(given.get("columns"), headers, may_be_none="headercolumns" in given)
    mismatch = given.get("headermismatch", "null").strip().lower()
    if "headercolumns" not in given:
        if "headermismatch" in given:
            raise InvalidOptionError("headerMismatch requires headerColumns, which is missing")
        return RowShape(columns, headers)
    if mismatch not in ("null", "fail"):
        raise InvalidOptionError(f"headerMismatch must be null or fail, not {mismatch}")
    header_columns = parse_header_columns(given["headercolumns"])
    for column in header_columns:
        if column.name.lower() in columns:
            raise InvalidOptionError(
                f"headerColumns names {column.name!r}, which is also a column of the source",
                advice="Omit that column from `columns`, or read this header from the column `headers`",
            )
    return RowShape(columns, headers, header_columns, mismatch == "fail")


def _headers(text: str) -> HeaderShape:
    shapes: dict[str, HeaderShape] = {shape: shape for shape in get_args(HeaderShape)}
    shape = shapes.get(text.strip().lower())
    if shape is None:
        raise InvalidOptionError(f"headers must be one of {', '.join(shapes)}, not {text}")
    return shape


def _columns(text: str | None, headers: HeaderShape, *, may_be_none: bool) -> tuple[str, ...]:
    there = tuple(name for name in COLUMN_NAMES if headers != "none" or not name.startswith("headers"))
    if text is None:
        return there
    names = tuple(name.strip().lower() for name in text.split(",") if name.strip())
    for name in names:
        if name not in there:
            what = "headers=none leaves out" if name in COLUMN_NAMES else "the source does not have"
            raise InvalidOptionError(f"columns names {name!r}, which {what}", advice=f"Use one of {', '.join(there)}")
    if len(set(names)) < len(names):
        raise InvalidOptionError(f"columns={text} must not repeat a column", advice=f"Use one of {', '.join(there)}")
    if not names and not may_be_none:
        raise InvalidOptionError(f"columns={text} must name a column", advice=f"Use one of {', '.join(there)}, and headerColumns")
    return names


def parse_states(text: str) -> frozenset[int] | None:
    """Return the codes of the states in the option `states`, or None for all."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if [name.lower() for name in names] == ["all"]:
        return None
    if not names:
        raise InvalidOptionError("states must not be empty", advice="Use all, " + ", ".join(s.name.lower() for s in MessageState))
    try:
        return frozenset(parse_state(name) for name in names)
    except InvalidInputError as error:
        raise InvalidOptionError(f"states: {error}") from error


def _filter(given: Mapping[str, str], states: frozenset[int] | None) -> Filter | None:
    policy = given.get("onfiltererror", "skip").strip().lower()
    if policy not in _FILTER_POLICIES:
        raise InvalidOptionError(f"onFilterError must be one of {', '.join(_FILTER_POLICIES)}, not {policy}")
    if "where" not in given:
        if "onfiltererror" in given:
            raise InvalidOptionError("onFilterError requires the option where, which is missing")
        return None
    try:
        return check_states(parse_filter(given["where"], _FILTER_POLICIES[policy]), states)
    except InvalidInputError as error:
        raise InvalidOptionError(f"where: {error.what}", advice=error.advice) from None


def _limits(given: Mapping[str, str]) -> BatchLimits:
    least, most = (_number(given, f"{word}OffsetsPerTrigger", _MAX_INT64) for word in ("min", "max"))
    if least is not None and most is not None and least > most:
        raise InvalidOptionError(f"minOffsetsPerTrigger={least} is more than maxOffsetsPerTrigger={most}")
    if least is None and "maxtriggerdelay" in given:
        raise InvalidOptionError("maxTriggerDelay requires minOffsetsPerTrigger, which is missing")
    size = _measure(given, "maxBytesPerTrigger", parse_size_bytes, "a number of bytes such as 500m or 2g")
    delay = _measure(given, "maxTriggerDelay", _milliseconds_or_duration, "a duration such as 90s or 15m")
    return BatchLimits(most, size, least, DEFAULT_DELAY_US if delay is None else delay)


def _milliseconds_or_duration(text: str) -> int:
    return parse_duration_us(text, plain_unit="ms")  # Spark also reads a duration without a unit as milliseconds


def _measure(given: Mapping[str, str], option: str, read: Callable[[str], int], what: str) -> int | None:
    text = given.get(option.lower())
    if text is None:
        return None
    try:
        measure = read(text)
    except InvalidInputError:
        measure = 0
    if not 1 <= measure <= _MAX_INT64:
        raise InvalidOptionError(f"{option}={text} is not {what}")
    return measure


def _number(given: Mapping[str, str], option: str, maximum: int) -> int | None:
    text = given.get(option.lower())
    if text is None:
        return None
    number = int(text) if text.strip().isdecimal() else 0
    if not 1 <= number <= maximum:
        raise InvalidOptionError(f"{option}={text} is not a number from 1 to {maximum}")
    return number


def _truth(text: str, option: str) -> bool:
    word = text.strip().lower()
    if word not in ("true", "false"):
        raise InvalidOptionError(f"{option} must be true or false, not {text}")
    return word == "true"
