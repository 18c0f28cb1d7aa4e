"""Generated histories of a whole log over faulty files: topics are created, changed and deleted during faults.

The faults of fault_histories.py happen to the partitions of a log's topics, with these steps in addition:

    create, delete, purge     done or not begun after a kill or power failure at any operation; no other topic changes
    retention                 whole segments are dropped, oldest first, and only in topics with retention
    set a state               persists with its message even through a power failure, and affects only that message
    commit an offset          persists through a kill; after a power failure an older one or none can remain
    commit staged batches     all of them, once, in every partition that they name

The catalog is a real database in a directory of its own. Each of its transactions is on the disk when it is committed
(SQLite's WAL, synchronous=FULL), and uncommitted ones are rolled back: so for the catalog a kill and a power failure are the
same, and both close its connection. SQLite's own recovery is tested by SQLite. The process is killed at file operations
before, within and after a transaction.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from headstream.core.codec.binary import encode_sent
from headstream.core.model.identifiers import TopicName
from headstream.core.model.message import Message, MessageState, StateChange
from headstream.core.model.polling import OffsetOwner
from headstream.core.model.topology import Fsync, Limits, NewTopic, TopicOptions
from headstream.errors import CorruptLogError, OffsetOutOfRangeError, PartitionClosedError, StorageError
from headstream.log.administration import create_topic, delete_topic, purge_topic
from headstream.log.catalog.records import TopicRecord
from headstream.log.log import Log
from headstream.log.partition.syncing import IntervalSyncer
from headstream.log.segments.layout import CATALOG_NAME, INBOX_NAME
from headstream.log.staged.staging import Manifest, StagedWriter, inbox_path
from headstream.log.upkeep.retention import Retention
from tests.campaigns.fault_histories import FaultHistory, PartitionModel, Send
from tests.campaigns.faulty_files import FaultyFiles, Killed

__all__ = ["KillableLog", "LogHistory"]

_GROUP: Final = OffsetOwner.group("g")
_STREAM: Final = "shop"
_MEMORY: Final = "/dev/shm"
"""A directory on which the catalog's syncs cost nothing."""
_MOST_TOPICS: Final = 3
_MAX_ATTEMPTS: Final = 50
"""Failed attempts to open a log under faults before the faults end."""


class _NoSyncer(IntervalSyncer):
    """Does not sync by itself: a history has one thread, and syncs when its seed decides."""

    def add(self, sync: Callable[[], object]) -> None:
        """Do nothing."""


class KillableLog(Log):
    """A log whose process can be killed."""

    def __init__(self, root: str, files: FaultyFiles, segment_bytes: int) -> None:
        super().__init__(root, files, is_memory=False, segment_bytes=segment_bytes)
        self._syncer = _NoSyncer()

    def _catalog_path(self, *, must_exist: bool) -> str | None:
        return f"{self.root}/{CATALOG_NAME}"

    def crash(self) -> None:
        """Release only what the operating system takes back from a killed process."""
        if self._catalog is not None:
            self._catalog.close()
        self._writer_lock.release()
        self.after_fork()


@dataclass(slots=True)
class _LogPartition:
    """A history's partition, used through its log so that an unfinished commit is completed first."""

    log: Log
    topic: TopicRecord
    number: int

    def append(self, sent: bytes, timestamp_us: int, seed: bytes) -> int:
        return self.log.append(self.topic, self.number, sent, timestamp_us, seed).offset

    def sync(self) -> int:
        return self.log.partition(self.topic, self.number).sync()

    def close(self) -> None:
        self.log.partition(self.topic, self.number).close()


@dataclass(slots=True)
class _Topic:
    """A topic and its expected content; `number` distinguishes it from earlier topics of its name."""

    number: int
    options: TopicOptions
    partitions: list[PartitionModel]
    states: list[dict[int, str]] = field(default_factory=list)
    """The poisoned messages of each partition, with the reason."""
    offsets: list[int | None] = field(default_factory=list)
    """The committed offset of each partition."""


class LogHistory(FaultHistory):
    """One history of a log; see FaultHistory.

    Args:
        seed: Determines the history.
        steps: Number of steps.
    """

    def __init__(self, seed: int, steps: int = 120) -> None:
        super().__init__(seed, steps)
        self._segment_bytes = self._rng.choice([300, 1000, 5000])
        self._topics: dict[str, _Topic] = {}
        self._changing: str | None = None
        """The topic that was being created, purged or deleted when the process was killed."""
        self._epoch = 0
        self._parts: list[tuple[PartitionModel, Send]] = []
        """The parts of the last staged commit, until its outcome is known."""
        self._partitions = []
        self._actions = [
            *self._actions,
            (5, self._create), (2, self._delete), (2, self._purge), (4, self._retain), (6, self._set_state),
            (6, self._commit_offset), (8, self._commit_staged),
        ]  # fmt: skip

    def run(self) -> None:
        """Run the history, with checks after every step that reads."""
        with tempfile.TemporaryDirectory(dir=_MEMORY if Path(_MEMORY).is_dir() else None) as root:
            self._log = KillableLog(root, self._files, self._segment_bytes)
            try:
                super().run()
            finally:
                self._log.crash()

    # -- a process's steps ----------------------------------------------------------------------------------

    def _now_us(self) -> int:
        self._count += 1
        return self._count

    def _record(self, name: str) -> TopicRecord:
        return self._log.snapshot()[_STREAM].topics[name]

    def _any_topic(self) -> str:
        return self._rng.choice(list(self._topics))

    def _any(self) -> PartitionModel:
        if not self._topics:
            self._create()
        return super()._any()

    def _create(self) -> None:
        if len(self._topics) == _MOST_TOPICS:
            return
        name = f"t{self._now_us()}"
        options = TopicOptions(retention_bytes=self._rng.choice([None, 500]))
        fsync = self._rng.choice(list(Fsync))
        self._note(f"create {name} ({fsync}, {options.retention_bytes})")
        self._changing = name
        partitions = self._rng.randint(1, 2)
        create_topic(self._log, NewTopic(TopicName(_STREAM, name), partitions, Limits.IGGY, fsync, options), self._count)
        self._changing = None
        self._adopt(name)

    def _adopt(self, name: str) -> None:
        """Begin to model an existing empty topic."""
        record = self._record(name)
        numbers = range(1, record.partitions + 1)
        directories = [self._log.partition_directory(record, number) for number in numbers]
        partitions = [PartitionModel(directory, record.fsync, self._segment_bytes) for directory in directories]
        states: list[dict[int, str]] = [{} for _ in numbers]
        self._topics[name] = _Topic(record.number, record.options, partitions, states, [None for _ in numbers])
        self._enter()

    def _enter(self) -> None:
        """Have the partitions use the log that is open now."""
        self._partitions = [modelled for topic in self._topics.values() for modelled in topic.partitions]
        for name, topic in self._topics.items():
            for number, modelled in enumerate(topic.partitions, 1):
                modelled.partition = _LogPartition(self._log, self._record(name), number)

    def _delete(self) -> None:
        if self._topics:
            self._changing = name = self._any_topic()
            self._note(f"delete {name}")
            delete_topic(self._log, self._record(name))
            self._changing = None
            del self._topics[name]
            self._enter()

    def _purge(self) -> None:
        if self._topics:
            self._changing = name = self._any_topic()
            self._note(f"purge {name}")
            purge_topic(self._log, self._record(name), self._now_us())
            self._changing = None
            self._adopt(name)

    def _retain(self) -> None:
        self._note("retention")
        Retention(self._log, self._now_us).apply()

    def _set_state(self) -> None:
        modelled = self._any()
        name, number = self._name_of(modelled)
        certain = sum(len(send.payloads) for send in modelled.sends if send.is_certain)
        if not certain or any(send.is_damaged for send in modelled.sends):
            return
        offset, reason = modelled.first_offset + self._rng.randrange(certain), str(self._now_us())
        self._note(f"set the state of {offset} of {modelled.directory}")
        known = self._topics[name].states[number - 1]
        before = str(known.get(offset)).removeprefix("?")  # an earlier refused change may itself still be pending
        known[offset] = f"?{before}|{reason}"
        try:
            self._log.partition(self._record(name), number).sync()
            modelled.durable = len(modelled.sends)
            change = StateChange(-1, MessageState.POISONED.value, reason, "", self._count)
            self._log.states.set(self._record(name), number, [offset], change)
        except PartitionClosedError:
            self._reopen_all()
        except OffsetOutOfRangeError:
            assert self._topics[name].options.retention_bytes is not None, f"{modelled.directory}: {offset} is missing"
            del known[offset]
        except (StorageError, CorruptLogError) as error:
            self._note(f"  refused: {error}")
        else:
            known[offset] = reason

    def _name_of(self, modelled: PartitionModel) -> tuple[str, int]:
        for name, topic in self._topics.items():
            for number, each in enumerate(topic.partitions, 1):
                if each is modelled:
                    return name, number
        raise AssertionError(modelled.directory)

    def _commit_offset(self) -> None:
        modelled = self._any()
        name, number = self._name_of(modelled)
        topic, offset = self._topics[name], self._now_us()
        self._note(f"commit {offset} in {modelled.directory}")
        topic.offsets[number - 1] = -1  # unknown if the commit is interrupted
        try:
            self._log.offsets(self._record(name)).commit(_GROUP, number, offset, self._count)
        except StorageError as error:
            self._note(f"  refused: {error.what}")
        else:
            topic.offsets[number - 1] = offset

    def _commit_staged(self) -> None:
        modelled = [self._any()]
        modelled += [each for each in self._partitions if each is not modelled[0] and self._rng.random() < 0.5]
        self._epoch += 1
        self._note(f"commit epoch {self._epoch} to {[each.directory for each in modelled]}")
        try:
            staged = StagedWriter(self._log.root, self._files, "job", self._epoch, "0")
            sends = []
            for each in modelled:
                name, number = self._name_of(each)
                sends.append(Send([b"%06d" % self._now_us()], is_certain=False, is_staged=True))
                staged.add(f"{_STREAM}/{name}", number, encode_sent([Message(payload=sends[-1].payloads[0])]), 1)
            part = staged.finish()
            assert part is not None
            limits = {chunk.topic: Limits.IGGY.value for chunk in part.chunks}
            manifest = Manifest("job", self._epoch, self._log.identity or "", limits, (part,))
            self._files.make_directory(f"{self._log.root}/{INBOX_NAME}")
            self._parts = list(zip(modelled, sends, strict=True))
            for each, send in self._parts:
                each.sends.append(send)
            self._files.replace(inbox_path(self._log.root, "job", self._epoch), manifest.encode(), durably=False)
            for _, send in self._parts:
                send.is_certain = (
                    True  # submitted: appended now, or by the next process; only a power failure can take the commit
                )
        except StorageError as error:
            self._note(f"  not staged: {error.what}")
            self._reopen_all()
            return
        try:
            self._log.commits.append_submitted()
        except StorageError as error:
            self._note(f"  not appended: {error.what}")
            self._reopen_all()
            return
        for each, _ in self._parts:
            if each.fsync is not Fsync.NEVER:
                each.durable = len(each.sends)
        self._parts = []

    # -- opening and checking -------------------------------------------------------------------------------

    def _open(self, *, is_after_power_cut: bool) -> None:
        """Open the log, with kills and failures as scheduled, then check its content."""
        for attempt in range(1_000_000):
            if attempt == _MAX_ATTEMPTS:
                self._files.revive()
            self._log.crash()
            try:
                self._log = KillableLog(self._log.root, self._files, self._segment_bytes)
                self._log.start_writing("identity", 1, briefly=True)
                self._log.commits.append_submitted()
                self._settle_topics()
                for modelled in self._partitions:
                    name, number = self._name_of(modelled)
                    self._log.partition(self._record(name), number)
            except Killed:
                self._note("  killed while it opened")
                self._files.revive()
            except StorageError as error:
                if attempt > _MAX_ATTEMPTS:
                    raise AssertionError(f"opening fails: {error}") from error
                self._note(f"  does not open: {error.what}")
            else:
                break
        scheduled, self._files.killed_in = self._files.killed_in, None
        faults, self._files.read_faults = self._files.read_faults, 0.0
        for modelled in self._partitions:
            self._compare(modelled, self._messages(modelled), may_lose=is_after_power_cut, is_settled=True)
        self._check_commit(is_after_power_cut=is_after_power_cut)
        for name, topic in self._topics.items():
            self._check_states(name, topic, may_wait=bool(faults or self._files.write_faults))
            self._check_offsets(name, topic, is_after_power_cut=is_after_power_cut)
        self._files.killed_in, self._files.read_faults = scheduled, faults

    def _settle_topics(self) -> None:
        """Check that the expected topics exist, and adopt the state of the one that was being changed."""
        stream = self._log.snapshot().get(_STREAM)
        records = {} if stream is None else dict(stream.topics)
        changing, self._changing = self._changing, None
        if changing is not None:
            record, known = records.get(changing), self._topics.get(changing)
            if record is None:
                self._topics.pop(changing, None)
            elif known is None or known.number != record.number:
                self._adopt(changing)
        assert {name: record.number for name, record in records.items()} == {n: t.number for n, t in self._topics.items()}
        self._enter()

    def _forget_dropped(self, modelled: PartitionModel, first_offset: int) -> None:
        name, number = self._name_of(modelled)
        while modelled.first_offset < first_offset:
            assert self._topics[name].options.retention_bytes is not None, f"{modelled.directory}: something was dropped"
            assert modelled.sends, f"{modelled.directory}: a message that never existed was dropped"
            modelled.first_offset += len(modelled.sends.pop(0).payloads)
            modelled.durable = max(0, modelled.durable - 1)
        super()._forget_dropped(modelled, first_offset)
        states = self._topics[name].states[number - 1]
        for offset in [offset for offset in states if offset < first_offset]:
            del states[offset]

    def _check_commit(self, *, is_after_power_cut: bool) -> None:
        """Check that the last staged commit is present in all its partitions, or in none."""
        there = {any(each.payloads == send.payloads for each in modelled.sends) for modelled, send in self._parts}
        if not is_after_power_cut and not any(t.options.retention_bytes for t in self._topics.values()):
            assert len(there) <= 1, "a staged commit is present in part"
        self._parts = []

    def _check_states(self, name: str, topic: _Topic, *, may_wait: bool) -> None:
        """Check which messages are poisoned.

        Args:
            may_wait: Whether the disk failed while the log was opened: a refused change may then still be pending.
        """
        record = self._record(name)
        for number, (modelled, known) in enumerate(zip(topic.partitions, topic.states, strict=True), 1):
            recorded = {change.offset: change.reason for change in self._log.states.changes(record, number)}
            messages = [message for message in self._messages(modelled) if message is not None]
            shown = {message.offset or 0 for message in messages if message.state != MessageState.AVAILABLE}
            unsure = {offset for offset, reason in known.items() if may_wait and reason.startswith("?")}
            differing = shown ^ set(recorded)
            assert differing <= unsure, f"{modelled.directory}: {shown} are shown poisoned, {set(recorded)} recorded"
            for offset, reason in list(known.items()):
                allowed = reason.removeprefix("?").split("|") if reason.startswith("?") else [reason]
                assert str(recorded.get(offset)) in allowed, f"{modelled.directory}: the state of {offset} is lost"
            waiting = {offset: f"?{recorded.get(offset)}" for offset in differing}
            topic.states[number - 1] = {**recorded, **waiting}

    def _check_offsets(self, name: str, topic: _Topic, *, is_after_power_cut: bool) -> None:
        offsets = self._log.offsets(self._record(name))
        for number, known in enumerate(topic.offsets, 1):
            if is_after_power_cut or known == -1:
                topic.offsets[number - 1] = -1
            else:
                found = offsets.committed(_GROUP, number)
                assert found == known, f"{name}, partition {number}: {found} is committed, not {known}"
