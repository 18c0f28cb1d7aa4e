"""The sources of a pipeline's messages: a Headstream log, a Kafka cluster, or any streaming DataFrame.

The messages are converted to the columns of raw.SOURCE_COLUMNS. A DataFrame must have these columns of Spark's Kafka source:

    value (or payload) BINARY or STRING, topic STRING, partition INT, offset BIGINT        required
    key BINARY or STRING, timestamp TIMESTAMP                                             optional
    headers ARRAY<STRUCT<key STRING, value BINARY>> as in Kafka, or BINARY as in format("headstream")
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import ArrayType, BinaryType, StringType, StructType

from headstream.connect import connect
from headstream.errors import DecodeError, InvalidOptionError, SchemaError, StorageError
from headstream.replicate.codec import TableMetadata, decode_envelope, decode_metadata
from headstream.replicate.codec.derived import derive_metadata
from headstream.replicate.columns.raw import SOURCE_COLUMNS
from headstream.replicate.decoding.decoded import DECODED_SPARK_SCHEMA
from headstream.replicate.decoding.frame_times import FrameTimes, PartitionTimes
from headstream.replicate.inputs.collecting import collect
from headstream.replicate.schemas.schema_store import SchemaStore, StoredSchema
from headstream.replicate.settings.config import ReplicateConfig, is_kafka
from headstream.replicate.storage.places import Place, StorePlace
from headstream.replicate.storage.store_files import StoreFiles
from headstream.spark.kafka.header_rows import blocks_of_kafka_headers
from headstream.spark.kafka.recreated_topics import forget_recreated
from headstream.spark.source.aligned_reader import make_aligned_source, planned_until
from headstream.spark.source.recreated import accept_recreated_log

Decode: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""Decodes raw messages (raw.SOURCE_COLUMNS) to batches of decoded.DECODED_SCHEMA."""

FORMAT: Final = "headstream-replicate"
READ_COLUMNS: Final = "stream,topic,partition,offset,timestamp,key,headers,payload"
"""The columns to read from a log."""


def decoding_source(decode: Decode) -> type[DataSource]:
    """Return a data source of one pipeline to register, with the options of `headstream` and the columns of DECODED_SCHEMA."""
    return make_aligned_source(FORMAT, DECODED_SPARK_SCHEMA, lambda rows: decode(map(to_raw, rows)))


def to_raw(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows of a log (READ_COLUMNS with binary headers) as raw messages."""
    found: dict[str, Any] = {name: batch.column(name) for name in batch.schema.names}
    found["topic"] = pc.binary_join_element_wise(found["stream"], found["topic"], "/")
    found["timestamp_us"] = found["timestamp"].cast(pa.int64())
    return pa.RecordBatch.from_arrays([found[name] for name in SOURCE_COLUMNS], names=list(SOURCE_COLUMNS))


_HEAP_SHARE: Final = 8
"""A micro-batch is at most this fraction (1/n) of the driver's heap, because several decoded copies are in memory."""
_LEAST_DEFAULT_BYTES: Final = 16 << 20
_NEEDED: Final = ("topic", "partition", "offset")
_DECLARED: Final = (".json", ".avsc", ".bin")


def check_topics(config: ReplicateConfig) -> None:
    """Raise NotFoundError before the start if a topic of the log does not exist; for Kafka, Spark raises an error."""
    if config.source is None or is_kafka(config.source):
        return
    with connect(config.source) as log:
        for topic in config.all_topics:
            log.topic(topic)


class Input(Protocol):
    """A stream of micro-batches, which can be decoded and read again."""

    def stream(self) -> DataFrame:
        """Return the stream."""

    def accept_recreated(self, checkpoint: Path) -> None:
        """Restart deleted and recreated topics at their first message; `checkpoint` belongs to the Spark query."""

    def decoded(self, batch: DataFrame) -> DataFrame:
        """Return the decoded messages of a micro-batch (decoded.DECODED_SCHEMA)."""

    def read_until(self, batch_id: int, times: Sequence[PartitionTimes]) -> int | None:
        """Return the log time before which all partitions are completely read after a micro-batch; None if unknown."""

    def read_again(self, batch: DataFrame, wanted: pa.Table, *, in_pieces: bool) -> pa.Table:
        """Return at least the wanted messages (COORDINATE_COLUMNS) of a micro-batch, as SOURCE_COLUMNS."""


def open_input(
    spark: SparkSession, config: ReplicateConfig, decode: Decode, times: FrameTimes, source: DataFrame | None = None
) -> Input:
    """Open the input of a pipeline.

    Args:
        times: The log times of a stream that plans only by offsets.
        source: A streaming DataFrame to read instead of the configured source.

    Raises:
        InvalidOptionError: the DataFrame is not a stream or lacks a column, or the source is missing.
    """
    if source is not None:
        return FrameInput(_from_frame(source), decode, times)
    if config.source is None:
        raise InvalidOptionError("the source is missing", where="source", advice="Pass a source, or a DataFrame")
    if not is_kafka(config.source):
        return LogInput(spark, config, decode)
    stream = spark.readStream.format("headstream").option("headers", "binary").options(**_subscription(config))
    return FrameInput(_to_raw(stream.options(**config.kafka).load()), decode, times)


class FrameInput:
    """A streaming DataFrame, converted to the columns of raw.SOURCE_COLUMNS."""

    def __init__(self, messages: DataFrame, decode: Decode, times: FrameTimes) -> None:
        self._messages = messages
        self._decode = decode
        self._times = times

    def stream(self) -> DataFrame:
        """Return the stream of raw messages."""
        return self._messages

    def accept_recreated(self, checkpoint: Path) -> None:
        """Restart deleted and recreated Kafka topics at their first message."""
        forget_recreated(self._messages, str(checkpoint))

    def decoded(self, batch: DataFrame) -> DataFrame:
        """Return the decoded messages of a micro-batch."""
        return batch.mapInArrow(self._decode, DECODED_SPARK_SCHEMA)

    def read_until(self, batch_id: int, times: Sequence[PartitionTimes]) -> int | None:
        """Return the log time before which all partitions are completely read after a micro-batch; None if unknown."""
        return self._times.read_until(batch_id, times)

    def read_again(self, batch: DataFrame, wanted: pa.Table, *, in_pieces: bool) -> pa.Table:
        """Return the messages of a micro-batch between the lowest and highest wanted offsets."""
        ends = pc.min_max(wanted["offset"])
        return collect(batch.where(f"offset BETWEEN {ends['min']} AND {ends['max']}"), in_pieces=in_pieces)


class LogInput:
    """A log in a directory or behind a server; the task that reads messages decodes them."""

    def __init__(self, spark: SparkSession, config: ReplicateConfig, decode: Decode) -> None:
        size = default_max_bytes(spark) if config.max_bytes_per_batch is None else config.max_bytes_per_batch
        self._spark = spark
        self._options = _subscription(config) | {"maxBytesPerTrigger": str(size)}
        self._url = str(config.source)
        self._checkpoint = query_checkpoint(config)
        self._decode = decode

    def accept_recreated(self, checkpoint: Path) -> None:
        """Restart deleted and recreated topics, or a recreated log, at the first message."""
        accept_recreated_log(checkpoint, self._options)

    def stream(self) -> DataFrame:
        """Return the stream of decoded messages."""
        self._spark.dataSource.register(decoding_source(self._decode))
        return self._spark.readStream.format(FORMAT).options(headers="binary", columns=READ_COLUMNS, **self._options).load()

    def decoded(self, batch: DataFrame) -> DataFrame:
        """Return the decoded messages of a micro-batch."""
        return batch

    def read_until(self, batch_id: int, times: Sequence[PartitionTimes]) -> int | None:
        """Return the log time before which all partitions are completely read after a micro-batch; None if unknown."""
        return planned_until(self._checkpoint, batch_id)

    def read_again(self, batch: DataFrame, wanted: pa.Table, *, in_pieces: bool) -> pa.Table:
        """Return the log's messages between the lowest and highest wanted offsets of each partition."""
        ends = wanted.group_by(["topic", "partition"]).aggregate([("offset", "min"), ("offset", "max")]).to_pylist()
        starting: dict[str, dict[str, int]] = {}
        ending: dict[str, dict[str, int]] = {}
        for row in ends:
            starting.setdefault(row["topic"], {})[str(row["partition"])] = row["offset_min"]
            ending.setdefault(row["topic"], {})[str(row["partition"])] = row["offset_max"] + 1
        assigned = {topic: [int(partition) for partition in partitions] for topic, partitions in starting.items()}
        read = self._spark.read.format("headstream").options(
            url=self._url,
            headers="binary",
            columns=READ_COLUMNS,
            assign=json.dumps(assigned),
            startingOffsets=json.dumps(starting),
            endingOffsets=json.dumps(ending),
            failOnDataLoss=self._options["failOnDataLoss"],
        )
        return collect(_to_raw(read.load()), in_pieces=in_pieces)


def query_checkpoint(config: ReplicateConfig) -> Path:
    """Return the directory of the Spark query's checkpoint."""
    return config.state_directory / "spark"


def _subscription(config: ReplicateConfig) -> dict[str, str]:
    return {
        "url": str(config.source),
        "subscribe": ",".join(config.all_topics),
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(config.max_messages_per_batch),
        "failOnDataLoss": "false" if config.accept_loss else "true",
    }


def default_max_bytes(spark: SparkSession) -> int:
    """Return the default size limit of a micro-batch, bytes, from the heap size of Spark's driver."""
    heap_bytes: int = spark._jvm.java.lang.Runtime.getRuntime().maxMemory()  # type: ignore[union-attr]
    return max(heap_bytes // _HEAP_SHARE, _LEAST_DEFAULT_BYTES)


def _to_raw(messages: DataFrame) -> DataFrame:
    return messages.selectExpr(
        "concat_ws('/', stream, topic) AS topic", "partition", "offset", "unix_micros(timestamp) AS timestamp_us",
        "key", "headers", "payload",
    )  # fmt: skip


def _from_frame(frame: DataFrame) -> DataFrame:
    if not frame.isStreaming:
        raise InvalidOptionError("the DataFrame is not a stream", where="source", advice="Create it with spark.readStream")
    payload = next((name for name in ("value", "payload") if name in frame.columns), None)
    missing = [name for name in _NEEDED if name not in frame.columns] + (["value"] if payload is None else [])
    if missing or payload is None:
        raise InvalidOptionError(
            f"the DataFrame has no column {missing[0]!r}", where="source", advice="Use the columns of Spark's Kafka source"
        )
    return frame.select(
        sf.col("topic").cast("string").alias("topic"),
        sf.col("partition").cast("int").alias("partition"),
        sf.col("offset").cast("bigint").alias("offset"),
        (sf.unix_micros("timestamp") if "timestamp" in frame.columns else sf.lit(0).cast("bigint")).alias("timestamp_us"),
        (sf.col("key").cast("binary") if "key" in frame.columns else sf.lit(None).cast("binary")).alias("key"),
        _headers(frame).alias("headers"),
        sf.col(payload).cast("binary").alias("payload"),
    )


def _headers(frame: DataFrame) -> Column:
    """Return the header block of each row, in the form that a log stores."""
    empty = sf.lit(b"")
    if "headers" not in frame.columns:
        return empty
    kind = frame.schema["headers"].dataType
    if isinstance(kind, BinaryType):
        return sf.coalesce(sf.col("headers"), empty)
    if isinstance(kind, ArrayType) and isinstance(kind.elementType, StructType) and kind.elementType.names == ["key", "value"]:
        return blocks_of_kafka_headers(sf.col("headers"))
    if isinstance(kind, StringType):
        raise InvalidOptionError("the column 'headers' must not be a string", where="source", advice="Pass Kafka's headers")
    return empty


def add_declared_schemas(schema_store: SchemaStore, directory: Place, now_us: int) -> int:
    """Add the schemas in a directory or at a URI to a schema store; return the number of new schemas.

    `*.json` is table metadata: the JSON message, or a complete metadata message in its envelope. `*.bin` is a metadata message as
    sent. `*.avsc` is the Avro schema of a table's data messages, whose namespace must end with `<schema>.<table>`; its id is
    `file-<name>`, and the order of file names is the order of the table's versions.

    Args:
        now_us: Current time, microseconds since 1970 UTC.

    Raises:
        SchemaError: a file has a different form, or a different schema already has the id.
    """
    count = 0
    for number, (path, content) in enumerate(_read_declared(directory), start=1):
        try:
            entry = StoredSchema(_declared(path, content, number), now_us, str(directory / path.name), 0, number)
            count += schema_store.add(entry)
        except (DecodeError, SchemaError, UnicodeDecodeError) as error:
            raise SchemaError(
                f"the file is not a schema: {error}", where=str(directory / path.name), advice="Correct the file or remove it"
            ) from None
    return count


def _read_declared(directory: Place) -> list[tuple[Path, bytes]]:
    """Return the names and contents of schema files, in name order."""
    if isinstance(directory, StorePlace):
        names = [Path(name) for name in StoreFiles(directory).names() if "/" not in name]
        found = [(path, StoreFiles(directory / path.name).read()) for path in names if path.suffix in _DECLARED]
        return [(path, read[0]) for path, read in found if read is not None]
    try:
        paths = sorted(path for path in directory.iterdir() if path.suffix in _DECLARED)
        return [(path, path.read_bytes()) for path in paths]
    except OSError as error:
        raise StorageError(f"cannot read the schema directory: {error.strerror}", where=str(directory)) from error


def _declared(path: Path, content: bytes, number: int) -> TableMetadata:
    if path.suffix == ".avsc":
        return derive_metadata(content.decode(), schema_id=f"file-{path.stem}", version=number)
    if path.suffix == ".json" and b'"atMSG"' not in content:
        return TableMetadata.from_json(content.decode())
    return decode_metadata(decode_envelope(content))
