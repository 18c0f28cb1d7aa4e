"""The options of writing to `format("headstream")`.

url              file:///var/lib/shop, headstream://user:password@host: see log_urls.py; save(path) and start(path) say the same
topic            shop/orders: where all rows go; without it the column `topic` says so, row by row
headerColumns    attempt, source, total float64: columns that become headers; a kind behind a name is that header's
badRowsPath      /var/lib/shop-bad: rows that the log does not take go there as Parquet files; without it they fail the job
commitTimeout    60s (default): how long another process that has the log's lock may take to append what is committed
txnAppId         and txnVersion, batch only: a write with the same two is made once, as in Delta (for foreachBatch)
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote, urlsplit

from headstream.errors import HeaderError, InvalidInputError, InvalidOptionError
from headstream.model.header_values import HeaderKind
from headstream.model.headers import Headers
from headstream.model.identifiers import TopicName
from headstream.model.quantities import parse_duration_us
from headstream.model.reserved import check_unreserved
from headstream.spark.log_urls import LogPlace, parse_log

__all__ = ["SinkOptions", "parse_header_kinds", "parse_sink_options"]

_NAMES: Final = ("url", "topic", "headerColumns", "badRowsPath", "commitTimeout", "txnAppId", "txnVersion")
_SPARKS_OWN: Final = frozenset({"path", "checkpointlocation", "queryname"})
_MAX_WRITER: Final = 200
_HEADER: Final = re.compile(r"\s*(?:`(?P<quoted>(?:[^`]|``)+)`|(?P<name>[\w.\-]+))(?:\s+(?P<kind>\w+))?\s*(?:,|$)")


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """How rows are written, checked.

    Args:
        log: Where the log is.
        topic: Where all rows go, or None.
        header_columns: Columns that become headers, in order, each with the kind that is asked for, or None.
        bad_rows_path: The directory of rows that are not taken, or None.
        commit_timeout_s: How long another process may take to append what is committed.
        transaction: Writer and epoch of a batch write that is made once, or None.
    """

    log: LogPlace
    topic: TopicName | None
    header_columns: tuple[tuple[str, HeaderKind | None], ...]
    bad_rows_path: str | None
    commit_timeout_s: float
    transaction: tuple[str, int] | None

    def check_stream(self) -> None:
        """Check that nothing is asked for that only a batch write can do.

        Raises:
            InvalidOptionError: something is.
        """
        if self.transaction is not None:
            raise InvalidOptionError("txnAppId and txnVersion are for batch writes", advice="A stream counts by itself")


def parse_sink_options(options: Mapping[str, str]) -> SinkOptions:
    """Return what options mean.

    Args:
        options: As Spark gives them; case does not matter in names.

    Raises:
        InvalidOptionError: an option is unknown, missing, or has a value that it cannot have; named by the text.
        InvalidUrlError: the URL names nothing that can be written here.
    """
    given = {name.lower(): value for name, value in options.items()}
    known = {name.lower(): name for name in _NAMES}
    for name in given:
        if name not in known and name not in _SPARKS_OWN:
            close = difflib.get_close_matches(name, known, n=1)
            advice = f"Did you mean {known[close[0]]}?" if close else f"There is {', '.join(_NAMES)}"
            raise InvalidOptionError(f"writing to headstream has no option {name}", advice=advice)
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
    """Return the columns that become headers, in order, each with the kind that is asked for, or None.

    Args:
        text: The option `headerColumns`.

    Raises:
        InvalidOptionError: it cannot be read, or names a column twice.
    """
    columns: list[tuple[str, HeaderKind | None]] = []
    at = 0
    while at < len(text) and text[at:].strip():
        match = _HEADER.match(text, at)
        if match is None:
            advice = "Write names, and kinds where you want another, as attempt uint8, source, `x total` float64"
            raise InvalidOptionError(f"headerColumns cannot be read at {text[at:].strip()!r}", advice=advice)
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
        raise InvalidOptionError(f"headerColumns: {text} is no kind of header", advice=f"There is {kinds}") from None


def _path(text: str | None) -> str | None:
    if text is None:
        return None
    parts = urlsplit(text)
    path = unquote(parts.path) if parts.scheme == "file" else text
    if parts.scheme not in ("", "file") or not path.startswith("/"):
        raise InvalidOptionError(f"badRowsPath={text} is no directory", advice="Give an absolute path, or file:// and one")
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
            f"txnAppId={app} and txnVersion={version} do not name a transaction",
            advice=f"Give both: a name of 1 to {_MAX_WRITER} characters, and a number that ascends, as foreachBatch's batch id",
        )
    return app, int(version)
