"""Dispatch by URL: `format("headstream")` with kafka:// uses Spark's Kafka source and sink, for batches and streams.

A Python data source returns rows and cannot delegate a read to a JVM source. So install() makes PySpark's four reader and writer
classes (also in Spark Connect) record their format and options. At load(), save() and start() they check for the format
`headstream` and a URL kafka://. For `headstream` with another URL, the workers' variables are set first; other formats are
unchanged. Subclasses returned by one session would not suffice, because a frame of any session creates its own writer.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from headstream.errors import InvalidOptionError
from headstream.spark.connection.catalog_tables import refuse_sql_tables, refuse_written_tables, refusing_table
from headstream.spark.kafka.options import is_kafka_url
from headstream.spark.workers.variables import set_worker_variables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FORMAT: Final = "headstream"
_MARK: Final = "_headstream_calls"
_RECORDED: Final = ("format", "option", "options", "mode", "outputMode", "queryName", "trigger", "partitionBy", "clusterBy")


def install(spark: SparkSession | None = None) -> None:
    """Make `format("headstream")` accept Kafka URLs in this process; repeated calls do nothing.

    Args:
        spark: The session; with a Spark Connect session, the classes of Spark Connect are changed too.
    """
    from pyspark.sql.readwriter import DataFrameReader, DataFrameWriter, DataFrameWriterV2
    from pyspark.sql.session import SparkSession as Session
    from pyspark.sql.streaming.readwriter import DataStreamReader, DataStreamWriter

    refuse_sql_tables(Session)
    refuse_written_tables(DataFrameWriterV2)
    classes: list[tuple[Any, Any, Any, Any]] = [(DataFrameReader, DataStreamReader, DataFrameWriter, DataStreamWriter)]
    if spark is not None and type(spark).__module__.startswith("pyspark.sql.connect"):
        from pyspark.sql.connect import readwriter
        from pyspark.sql.connect.session import SparkSession as ConnectSession
        from pyspark.sql.connect.streaming import readwriter as streaming

        refuse_sql_tables(ConnectSession)
        refuse_written_tables(readwriter.DataFrameWriterV2)
        classes.append(
            (readwriter.DataFrameReader, streaming.DataStreamReader, readwriter.DataFrameWriter, streaming.DataStreamWriter)
        )
    for batch_reader, stream_reader, batch_writer, stream_writer in classes:
        _wrap(batch_reader, "load", functools.partial(_load, streaming=False))
        _wrap(stream_reader, "load", functools.partial(_load, streaming=True))
        _wrap(batch_writer, "save", _save)
        _wrap(stream_writer, "start", _start)


def _wrap(kind: Any, end: str, redirect: Callable[[Any, dict[str, str]], Any]) -> None:
    if _MARK in vars(kind):
        return
    setattr(kind, _MARK, ())
    for name in _RECORDED:
        if hasattr(kind, name):
            setattr(kind, name, _recording(name, getattr(kind, name)))
    setattr(kind, end, _dispatching(getattr(kind, end), redirect))
    for name in ("saveAsTable", "toTable"):
        if hasattr(kind, name):
            setattr(kind, name, refusing_table(getattr(kind, name), lambda writer: _recorded_options(writer)[0]))


def _recording(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def record(self: Any, *arguments: Any, **named: Any) -> Any:
        before = getattr(self, _MARK)
        result = method(self, *arguments, **named)
        setattr(self, _MARK, (*before, (name, arguments, named)))  # one record, even if a recorded method calls another
        return result

    return record


def _dispatching(method: Callable[..., Any], redirect: Callable[[Any, dict[str, str]], Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def dispatch(self: Any, path: Any = None, format: str | None = None, *arguments: Any, **named: Any) -> Any:
        source, options = _recorded_options(self)
        options |= {
            name: value
            for name, value in named.items()
            if name not in ("schema", "mode", "outputMode", "partitionBy", "queryName")
        }
        if isinstance(path, str):
            options["path"] = path
        if method.__name__ == "start":
            _check_start(self, options, named)
        if (format or source or "").lower() != _FORMAT:
            return method(self, path, format, *arguments, **named)
        if not is_kafka_url(options):
            spark: Any = getattr(self, "_spark", None)
            if hasattr(spark, "_jsparkSession"):  # not Spark Connect, whose JVM is in another process
                set_worker_variables(spark)
            return method(self, path, format, *arguments, **named)
        if arguments or named.get("schema") is not None:
            raise InvalidOptionError(
                "the headstream format has fixed columns, and does not accept settings as positional arguments",
                advice="Omit schema; set mode, trigger and similar settings with their methods",
            )
        for name in ("mode", "outputMode", "queryName"):
            if named.get(name) is not None:
                getattr(self, name)(named[name])
        return redirect(self, {name: _text(value) for name, value in options.items() if value is not None})

    return dispatch


def _check_start(writer: Any, options: Mapping[str, Any], named: Mapping[str, Any]) -> None:
    """Check a query's trigger before the query starts, and that the query's Kafka topics match the checkpoint."""
    from headstream.spark.kafka.recreated_topics import check_topics_of_query

    frame: Any = getattr(writer, "_df", None)
    if not hasattr(frame, "_jdf"):  # a frame of Spark Connect, whose JVM is in another process
        return
    triggers = [words for name, _, words in getattr(writer, _MARK) if name == "trigger"]
    for word, kind in (("continuous", "a continuous trigger"), ("realTime", "a real-time trigger")):
        if triggers and triggers[-1].get(word) is not None and f"{_FORMAT}, " in _streams_of(frame):
            raise InvalidOptionError(
                f"trigger({word}=...): the headstream source does not support {kind}",
                advice='The source uses micro-batches: trigger(processingTime="0 seconds") is the fastest trigger',
            )
    given = {name.lower(): value for name, value in options.items()}
    checkpoint = given.get("checkpointlocation")
    name = named.get("queryName") or _last_name(writer)
    root = frame.sparkSession.conf.get("spark.sql.streaming.checkpointLocation", None)
    if checkpoint is None and root and name:
        checkpoint = f"{root}/{name}"
    if checkpoint is not None:
        check_topics_of_query(frame, str(checkpoint))


def _last_name(writer: Any) -> str | None:
    names = [(*words, *named.values())[0] for name, words, named in getattr(writer, _MARK) if name == "queryName"]
    return names[-1] if names else None


def _streams_of(frame: Any) -> str:
    """Return the names of the sources of a frame's streams, each followed by a comma and a space."""
    leaves = frame._jdf.queryExecution().analyzed().collectLeaves()
    return "".join(
        f"{leaf.sourceName()}, "
        for leaf in (leaves.apply(index) for index in range(leaves.size()))
        if leaf.getClass().getSimpleName() == "StreamingRelationV2"
    )


def _recorded_options(self: Any) -> tuple[str | None, dict[str, Any]]:
    source: str | None = None
    options: dict[str, Any] = {}
    for name, arguments, named in getattr(self, _MARK):
        if name == "format":
            source = (*arguments, *named.values())[0]
        elif name == "option":
            given = [*arguments, *named.values()]
            options[given[0]] = given[1]
        elif name == "options":
            options |= named
    return source, options


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _load(reader: Any, options: dict[str, str], *, streaming: bool) -> Any:
    from headstream.spark.kafka.reading import read_kafka

    session = getattr(reader, "_spark", None) or reader._client
    return read_kafka(session, options, streaming=streaming)


def _save(writer: Any, options: dict[str, str]) -> None:
    from headstream.spark.kafka.writing import prepare_rows

    modes = [(*arguments, *named.values())[0] for name, arguments, named in getattr(writer, _MARK) if name == "mode"]
    if modes and modes[-1] not in (None, "append"):
        raise InvalidOptionError(f"mode={modes[-1]} is unsupported", advice='Messages are appended: use mode("append")')
    rows = writer._df
    if not hasattr(rows, "select"):  # a writer of Spark Connect has only the plan
        from pyspark.sql.connect.dataframe import DataFrame

        rows = DataFrame(rows, writer._spark)
    frame, sink = prepare_rows(rows, options)
    frame.write.format("kafka").options(**sink).mode("append").save()


def _start(writer: Any, options: dict[str, str]) -> Any:
    from headstream.spark.kafka.writing import prepare_rows

    if hasattr(writer, "_df"):
        rows = writer._df
    else:  # a writer of Spark Connect has only the plan
        from pyspark.sql.connect.dataframe import DataFrame

        rows = DataFrame(writer._write_stream._child, writer._session)
    frame, sink = prepare_rows(rows, options)
    again = frame.writeStream.format("kafka").options(**sink)
    for name, arguments, named in getattr(writer, _MARK):
        if name not in ("format", "option", "options"):
            again = getattr(again, name)(*arguments, **named)
    return again.start()
