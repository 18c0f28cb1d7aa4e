"""The write options of `format("headstream")`.

url              file:///var/lib/shop, headstream://user:password@host: see log_urls.py; also set by save(path) and start(path)
topic            shop/orders: topic of all rows; by default the column `topic` contains each row's topic
headerColumns    attempt, source, total float64: columns that become headers; a kind after a name overrides the default
badRowsPath      /var/lib/shop-bad: directory for rejected rows, as Parquet files; by default a rejected row fails the job
commitTimeout    60s (default): maximum wait for another process that holds the log's lock and appends the commit
txnAppId         and txnVersion, batch only: repeated writes with the same values have no effect, as in Delta (for foreachBatch)
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote, urlsplit

from headstream.core.model.header_values import HeaderKind
from headstream.core.model.headers import Headers
from headstream.core.model.identifiers import TopicName
from headstream.core.model.quantities import parse_duration_us
from headstream.core.model.reserved import check_unreserved
from headstream.errors import HeaderError, InvalidInputError, InvalidOptionError
from headstream.spark.connection.log_urls import LogLocation, parse_log

OPTION_NAMES: Final = ("url", "topic", "headerColumns", "badRowsPath", "commitTimeout", "txnAppId", "txnVersion")
"""All write options."""
_OPTIONS_OF_SPARK: Final = frozenset({"path", "checkpointlocation", "queryname"})
_MAX_WRITER: Final = 200
_HEADER: Final = re.compile(r"\s*(?:`(?P<quoted>(?:[^`]|``)+)`|(?P<name>[\w.\-]+))(?:\s+(?P<kind>\w+))?\s*(?:,|$)")


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """Validated write options.

    Args:
        header_columns: Columns that become headers, in order, each with the requested kind or None.
        bad_rows_path: The directory for rejected rows, or None.
        commit_timeout_s: Maximum time for another process to append the commit, seconds.
        transaction: Writer and epoch of an idempotent batch write (txnAppId and txnVersion), or None.
    """

    log: LogLocation
    topic: TopicName | None
    header_columns: tuple[tuple[str, HeaderKind | None], ...]
    bad_rows_path: str | None
    commit_timeout_s: float
    transaction: tuple[str, int] | None

    def check_stream(self) -> None:
        """Reject options that only a batch write supports."""
        if self.transaction is not None:
            raise InvalidOptionError("txnAppId and txnVersion are supported only in batch writes", advice="Omit them in a stream")


def parse_sink_options(options: Mapping[str, str]) -> SinkOptions:
    """Return the validated write options; option names are case-insensitive."""
    given = {name.lower(): value for name, value in options.items()}
    known = {name.lower(): name for name in OPTION_NAMES}
    for name in given:
        if name not in known and name not in _OPTIONS_OF_SPARK:
            close = difflib.get_close_matches(name, known, n=1)
            advice = f"Did you mean {known[close[0]]}?" if close else f"Use one of {', '.join(OPTION_NAMES)}"
            raise InvalidOptionError(f"the headstream sink has no option {name}", advice=advice)
    return SinkOptions(
        log=parse_log(given),
        topic=_topic(given.get("topic")),
        header_columns=parse_header_kinds(given.get("headercolumns", "")),
        bad_rows_path=_path(given.get("badrowspath")),
        commit_timeout_s=_seconds(given.get("committimeout", "60s")),
        transaction=_transaction(given.get("txnappid"), given.get("txnversion")),
    )


def _topic(text: str | None) -> TopicName | None:
    if text is None:
        return None
    try:
        return TopicName.parse(text.strip())
    except InvalidInputError as error:
        raise InvalidOptionError(f"topic: {error}") from error


def parse_header_kinds(text: str) -> tuple[tuple[str, HeaderKind | None], ...]:
    """Return the columns that become headers, in order, each with the requested kind or None."""
    columns: list[tuple[str, HeaderKind | None]] = []
    at = 0
    while at < len(text) and text[at:].strip():
        match = _HEADER.match(text, at)
        if match is None:
            advice = "Write names with optional kinds, for example attempt uint8, source, `x total` float64"
            raise InvalidOptionError(f"headerColumns cannot be parsed at {text[at:].strip()!r}", advice=advice)
        name = match["name"] or match["quoted"].replace("``", "`")
        try:
            check_unreserved(Headers({name: None}))
        except HeaderError as error:
            raise InvalidOptionError(f"headerColumns: {error}") from error
        columns.append((name, _kind(match["kind"])))
        at = match.end()
    if len({name.lower() for name, _ in columns}) < len(columns):
        raise InvalidOptionError(f"headerColumns names a column twice: {text}")
    return tuple(columns)


def _kind(text: str | None) -> HeaderKind | None:
    if text is None:
        return None
    try:
        return HeaderKind[text.upper()]
    except KeyError:
        kinds = ", ".join(kind.name.lower() for kind in HeaderKind)
        raise InvalidOptionError(f"headerColumns: {text} is not a kind of header", advice=f"Use one of {kinds}") from None


def _path(text: str | None) -> str | None:
    if text is None:
        return None
    parts = urlsplit(text)
    path = unquote(parts.path) if parts.scheme == "file" else text
    if parts.scheme not in ("", "file") or not path.startswith("/"):
        raise InvalidOptionError(f"badRowsPath={text} is not a local directory", advice="Set an absolute path, or a file:// URL")
    return path.rstrip("/") or "/"


def _seconds(text: str) -> float:
    try:
        return parse_duration_us(text, plain_unit="s") / 1_000_000
    except InvalidInputError as error:
        raise InvalidOptionError(f"commitTimeout: {error.what}", advice=error.advice) from None


def _transaction(app: str | None, version: str | None) -> tuple[str, int] | None:
    if app is None and version is None:
        return None
    if not app or version is None or not version.strip().isdecimal() or len(app) > _MAX_WRITER:
        raise InvalidOptionError(
            f"txnAppId={app} and txnVersion={version} do not identify a transaction",
            advice=f"Set both: a name of 1 to {_MAX_WRITER} characters, and an ascending number such as foreachBatch's batch id",
        )
    return app, int(version)
