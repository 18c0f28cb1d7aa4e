"""Staging: stores batches in the log's directory until they are committed together, exactly once.

    DIR/staged/<writer>/<epoch>/<part>.batches     contiguous sent batches, written by any process
    DIR/inbox/<writer>-<epoch>.json                a manifest: the batches of a commit; renaming the file submits the commit
    DIR/inbox/<writer>-<epoch>.taken               the manifest while the log's writer appends its batches

A writer, such as a Spark query, sends epochs in sequence. An epoch is committed once, because the log records the last epoch of
each writer (commit_records.py): repeating its manifest has no effect, and a manifest of an earlier epoch is rejected.

Staging and committing need no lock. The log's writer process appends the manifest's batches (commits.py), and the committing
process waits for the append (submission.py). Uncommitted batches are removed by the same writer's next commit, or after a day.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote

from headstream.core.codec.batch.stored.scan import crc32c
from headstream.core.codec.buffer import BytesLike
from headstream.errors import CorruptLogError, InvalidInputError
from headstream.log.segments.layout import INBOX_NAME, STAGED_NAME
from headstream.log.system.files import Files, WriteFile

MANIFEST_SUFFIX: Final = ".json"
TAKEN_SUFFIX: Final = ".taken"
_PART_SUFFIX: Final = ".batches"
MAX_WRITER_BYTES: Final = 200
"""Maximum size of a writer's name in a file name: with an epoch and any suffix, the file name fits into 255 bytes."""
MAX_EPOCH: Final = (1 << 63) - 1
"""Maximum epoch: SQLite's largest integer."""
_ABANDONED_US: Final = 86_400 * 1_000_000
"""Staged files without writes for a day are abandoned. A later commit is refused, and its batches are staged again."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """One sent batch for a partition of `stream/topic` in a staged file; the batches in a file are contiguous."""

    topic: str
    partition: int
    size_bytes: int
    count: int
    crc32c: int


@dataclass(frozen=True, slots=True)
class StagedPart:
    """One staged file."""

    name: str
    chunks: tuple[Chunk, ...]


@dataclass(frozen=True, slots=True)
class Manifest:
    """The batches of one commit.

    Args:
        writer: The writer's name: 1 to 200 characters.
        epoch: The epoch's number, 0 or more; the epochs of a writer increase.
        limits: Topic name -> limits against which the messages were checked.
    """

    writer: str
    epoch: int
    identity: str
    limits: dict[str, str]
    parts: tuple[StagedPart, ...]

    def encode(self) -> bytes:
        """Return the manifest as JSON with a checksum."""
        body = json.dumps(asdict(self), separators=(",", ":"))
        return json.dumps({"check": crc32c(body.encode()), "manifest": body}).encode()

    @classmethod
    def decode(cls, data: bytes, where: str) -> Manifest:
        """Return the manifest from the result of encode()."""
        try:
            outer = json.loads(data)
            body = outer["manifest"]
            if crc32c(body.encode()) != outer["check"]:
                raise ValueError("the checksum does not match")
            return _read_members(json.loads(body))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise CorruptLogError(
                f"the manifest of a staged commit cannot be read: {error}",
                where=where,
                advice="Move the file out of the log; the job that wrote it sends the batch again after a restart",
            ) from error


def _read_members(members: Any) -> Manifest:
    """Return a manifest from its JSON; ValueError, TypeError, KeyError or AttributeError if it is invalid."""
    parts = tuple(StagedPart(part["name"], tuple(Chunk(**chunk) for chunk in part["chunks"])) for part in members["parts"])
    manifest = Manifest(members["writer"], members["epoch"], members["identity"], dict(members["limits"]), parts)
    chunks = [chunk for part in parts for chunk in part.chunks]
    texts = [manifest.writer, manifest.identity, *(part.name for part in parts), *(chunk.topic for chunk in chunks)]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("a name is not a string")
    numbers = [number for each in chunks for number in (each.partition, each.size_bytes, each.count, each.crc32c)]
    if not all(type(number) is int and number >= 0 for number in (manifest.epoch, *numbers)):
        raise ValueError("a number is invalid or negative")
    if any("/" in part.name or "\0" in part.name for part in parts):
        raise ValueError("a part name points outside the directory")
    check_epoch(manifest.writer, manifest.epoch)
    return manifest


def _writer_directory(root: str, writer: str) -> str:
    return f"{root}/{STAGED_NAME}/{quote(writer, safe='')}"


def epoch_directory(root: str, writer: str, epoch: int) -> str:
    """Return the directory of an epoch's staged files."""
    return f"{_writer_directory(root, writer)}/{epoch}"


def inbox_name(writer: str, epoch: int, suffix: str = MANIFEST_SUFFIX) -> str:
    """Return the name of an epoch's manifest in the inbox."""
    return f"{quote(writer, safe='')}-{epoch}{suffix}"


def inbox_path(root: str, writer: str, epoch: int, suffix: str = MANIFEST_SUFFIX) -> str:
    """Return the path of an epoch's manifest."""
    return f"{root}/{INBOX_NAME}/{inbox_name(writer, epoch, suffix)}"


def check_epoch(writer: str, epoch: int) -> None:
    """Raise InvalidInputError if the writer cannot name a directory or the epoch exceeds SQLite's integer range."""
    if writer in ("", ".", "..") or len(quote(writer, safe="", errors="surrogatepass")) > MAX_WRITER_BYTES:
        raise InvalidInputError(
            f"{writer!r:.60} is not a valid writer name",
            advice=f"Use 1 to {MAX_WRITER_BYTES} letters, digits, hyphens; each UTF-8 byte of other characters counts as 3",
        )
    if not 0 <= epoch <= MAX_EPOCH:
        raise InvalidInputError(f"epoch {epoch} of writer {writer!r:.60} is out of range", advice=f"Use 0 to {MAX_EPOCH}")


def read_manifest(path: str, files: Files) -> Manifest | None:
    """Return the manifest in a file; None if the file does not exist."""
    file = files.open_read(path)
    if file is None:
        return None
    try:
        content = memoryview(bytearray(file.size_bytes()))
        return Manifest.decode(bytes(content[: file.read_into(content, 0)]), path)
    finally:
        file.close()


class StagedWriter:
    """Writes one staged file, which the first batch creates, so that an empty part leaves no file.

    Args:
        name: Name of the part, without suffix; unique among attempts at the same work.
        position: Byte position of the first batch; not 0 if an earlier StagedWriter started the file.

    Raises:
        InvalidInputError: the writer or the epoch is invalid; when a batch is added: the file ends before the position.
    """

    def __init__(self, root: str, files: Files, writer: str, epoch: int, name: str, *, position: int = 0) -> None:
        check_epoch(writer, epoch)
        self._directory = epoch_directory(root, writer, epoch)
        self._files = files
        self._name = self.file_name(name)
        self._path = f"{self._directory}/{self._name}"
        self._file: WriteFile | None = None
        self._position = position
        self._chunks: list[Chunk] = []

    @staticmethod
    def file_name(part: str) -> str:
        """Return the name of a part's file in its epoch's directory."""
        return f"{part}{_PART_SUFFIX}"

    def add(self, topic: str, partition: int, sent: BytesLike, count: int) -> None:
        """Stage a batch."""
        data = memoryview(sent).cast("B")
        if self._file is None:
            self._files.make_directory(self._directory)
            self._file = self._files.open_write(self._path)
            if self._file.size_bytes() < self._position:
                raise InvalidInputError(
                    f"the file ends before byte {self._position}", where=self._path, advice="Stage the batches of a part in order"
                )
        self._file.write_at(data, self._position)
        self._position += len(data)
        self._chunks.append(Chunk(topic, partition, len(data), count, crc32c(data)))

    def sync(self) -> None:
        """Sync the staged bytes; the file's name is synced when the commit begins."""
        if self._file is not None:
            self._file.sync()

    def finish(self) -> StagedPart | None:
        """Return the staged part, synced; None if it is empty."""
        if self._file is None:
            return None
        try:
            self.sync()
        finally:
            self._file.close()
            self._file = None
        return StagedPart(self._name, tuple(self._chunks))

    def pause(self) -> tuple[Chunk, ...]:
        """Close the file without a sync, so that another StagedWriter can continue it; return the file's chunks."""
        if self._file is not None:
            self._file.close()
            self._file = None
        return tuple(self._chunks)

    def discard(self) -> None:
        """Remove the staged file."""
        if self._file is not None:
            self._file.close()
            self._file = None
        if self._chunks:
            self._files.remove(self._path)


def unstage(root: str, files: Files, writer: str, epoch: int, names: Iterable[str]) -> None:
    """Remove staged files of an epoch, and their directories if empty."""
    for name in names:
        files.remove(f"{epoch_directory(root, writer, epoch)}/{name}")
    files.remove_empty_directory(epoch_directory(root, writer, epoch))
    files.remove_empty_directory(_writer_directory(root, writer))


def remove_staged(root: str, files: Files, writer: str, epoch: int) -> None:
    """Remove the staged files of an epoch."""
    files.remove_directory(epoch_directory(root, writer, epoch))
    files.remove_empty_directory(_writer_directory(root, writer))


def sweep_epochs(root: str, files: Files, writer: str, epoch: int) -> None:
    """Remove a writer's staged files up to and including a committed epoch."""
    directory = _writer_directory(root, writer)
    for name in files.list_names(directory) or ():
        if name.isdecimal() and int(name) <= epoch:
            files.remove_directory(f"{directory}/{name}")
    files.remove_empty_directory(directory)


def sweep_abandoned(root: str, files: Files, now_us: int) -> None:
    """Remove staged files without writes for a day, unless a manifest in the inbox names them."""
    wanted = {name.rpartition(".")[0] for name in files.list_names(f"{root}/{INBOX_NAME}") or ()}
    for quoted in files.list_names(f"{root}/{STAGED_NAME}") or ():
        writer = unquote(quoted)
        for epoch in files.list_names(_writer_directory(root, writer)) or ():
            directory = f"{_writer_directory(root, writer)}/{epoch}"
            paths = [directory, *(f"{directory}/{name}" for name in files.list_names(directory) or ())]
            changed_ns = [files.changed(path) or 0 for path in paths]
            is_new = min(changed_ns) < 0 or max(changed_ns) // 1000 >= now_us - _ABANDONED_US
            if not is_new and f"{quoted}-{epoch}" not in wanted:
                files.remove_directory(directory)
        files.remove_empty_directory(_writer_directory(root, writer))


class StagedChunk(NamedTuple):
    """A chunk, its file, and its byte position in that file."""

    path: str
    position: int
    chunk: Chunk


def chunks_of(root: str, manifest: Manifest, topic: str, partition: int) -> Iterator[StagedChunk]:
    """Yield the chunks of one partition, in the order of appending."""
    directory = epoch_directory(root, manifest.writer, manifest.epoch)
    for part in manifest.parts:
        position = 0
        for chunk in part.chunks:
            if (chunk.topic, chunk.partition) == (topic, partition):
                yield StagedChunk(f"{directory}/{part.name}", position, chunk)
            position += chunk.size_bytes


def read_chunk(path: str, files: Files, position: int, chunk: Chunk) -> memoryview:
    """Return a batch of a staged file."""
    data = memoryview(bytearray(chunk.size_bytes))
    file = files.open_read(path)
    got = 0
    if file is not None:
        try:
            got = file.read_into(data, position)
        finally:
            file.close()
    if got < chunk.size_bytes or crc32c(data) != chunk.crc32c:
        raise CorruptLogError(
            f"a staged batch of {chunk.size_bytes} bytes for {chunk.topic}, partition {chunk.partition} is "
            + ("missing" if file is None else "cut short" if got < chunk.size_bytes else "damaged"),
            where=f"{path}, byte {position}",
            advice="Restart the job that staged the batch: the job sends the batch again",
        )
    return data
