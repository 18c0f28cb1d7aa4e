"""The Kafka topics in a checkpoint: whether each topic was read, and its id, which reveals a recreated topic.

Spark's checkpoints store offsets by topic name. A topic that was deleted and recreated has other messages at the same offsets. A
topic that an earlier run stopped reading is read from its beginning when it is added again. So a starting query stores the ids of
its Kafka topics beside Spark's own files:

    CHECKPOINT/headstream-topics.json     {"shop.orders": {"id": "Qm3...", "read": true}}

The ids are compared when a query is started through PySpark, using the JVM's own file systems and Kafka client.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from headstream.errors import LogError
from headstream.spark.source.recreated import begin_anew

_LOGGER: Final = logging.getLogger("headstream.spark")
MARKER: Final = "headstream.reader"
"""Option of Spark's Kafka source that identifies reads through format("headstream") in a query plan."""
_FILE: Final = "headstream-topics.json"
_NO_ID: Final = "AAAAAAAAAAAAAAAAAAAAAA"
"""The id that Kafka returns for topics created before topic ids existed."""
_TIMEOUT_MS: Final = "30000"


@dataclass(frozen=True, slots=True)
class KnownTopic:
    """A topic of a checkpoint: Kafka's topic id, if there is one, and whether the last run read the topic."""

    id: str | None
    is_read: bool


def compare_topics(known: Mapping[str, KnownTopic], now: Mapping[str, str | None], where: str) -> dict[str, KnownTopic]:
    """Return the topics to store in a checkpoint; warn of topics that were removed or added again.

    Raises:
        LogError: a topic was deleted and recreated.
    """
    for topic, topic_id in now.items():
        before = known.get(topic)
        if before is None:
            continue
        if None not in (before.id, topic_id) and before.id != topic_id:
            raise LogError(
                f"topic {topic} was deleted and recreated after this query last read it; the offsets now refer to other messages",
                where=f"id {topic_id}, previously {before.id}; checkpoint {where}",
                advice="Start the query with a new checkpointLocation; it then reads from startingOffsets",
            )
        if not before.is_read:
            _LOGGER.warning(
                "topic %s is read again after a run that did not read this topic: if that run read other topics, this topic "
                "is read from its beginning, and its messages are read twice (checkpoint %s)",
                topic,
                where,
            )
    for topic, before in known.items():
        if topic not in now and before.is_read:
            _LOGGER.warning(
                "topic %s is no longer read: the checkpoint %s drops its offsets with the next micro-batch; if the topic is "
                "read again later, reading starts at its beginning",
                topic,
                where,
            )
    kept = {topic: KnownTopic(before.id, False) for topic, before in known.items()}
    return kept | {topic: KnownTopic(topic_id, True) for topic, topic_id in now.items()}


def pattern_names(pattern: str, names: list[str]) -> list[str]:
    """Return the topics that a Kafka pattern matches; a Java expression that Python cannot parse matches no topic."""
    try:
        return [name for name in names if re.fullmatch(pattern, name)]
    except re.error:
        return []


def check_topics_of_query(frame: Any, checkpoint: str) -> None:
    """Check the Kafka topics that a streaming frame reads through format("headstream"), and store them in the checkpoint.

    Args:
        checkpoint: The query's checkpoint, a path or URI that Spark can write to.

    Raises:
        LogError: a topic was deleted and recreated since the checkpoint's last run.
    """
    found = _find_known(frame, checkpoint)
    if found is None:
        return
    before, now, keep = found
    after = compare_topics(before, now, checkpoint)
    if after != before:
        keep(after)


def forget_recreated(frame: Any, checkpoint: str) -> None:
    """Make a query begin at the first message of recreated Kafka topics, by removing their offsets and ids."""
    found = _find_known(frame, checkpoint)
    if found is None:
        return
    before, now, keep = found
    recreated = [name for name, each in before.items() if None not in (each.id, now.get(name)) and now[name] != each.id]
    if recreated:
        begin_anew(Path(checkpoint), recreated)  # before the ids are removed: without ids, old offsets would seem valid
        keep({name: each for name, each in before.items() if name not in recreated})


def _find_known(
    frame: Any, checkpoint: str
) -> tuple[dict[str, KnownTopic], dict[str, str | None], Callable[[Mapping[str, KnownTopic]], None]] | None:
    """Return a checkpoint's topics, the current topics, and a function that stores topics; None if there is no checkpoint."""
    sources = _sources(frame)
    if not sources:
        return None
    spark = frame.sparkSession
    now: dict[str, str | None] = {}
    for options in sources:
        found = _find_topics(spark._jvm, options)
        if found is None:
            return None
        now |= found
    path = spark._jvm.org.apache.hadoop.fs.Path(checkpoint, _FILE)
    files = path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
    text = _read(spark._jvm, files, path)
    before = {name: KnownTopic(item["id"], item["read"]) for name, item in json.loads(text or "{}").items()}

    def keep(after: Mapping[str, KnownTopic]) -> None:
        document = {name: {"id": topic.id, "read": topic.is_read} for name, topic in sorted(after.items())}
        stream = files.create(path, True)
        stream.write(bytearray(json.dumps(document).encode()))
        stream.close()

    return before, now, keep


def _sources(frame: Any) -> list[dict[str, str]]:
    """Return the options of each Kafka stream in a plan that is read through format("headstream")."""
    found = []
    leaves = frame._jdf.queryExecution().analyzed().collectLeaves()
    for index in range(leaves.size()):
        leaf = leaves.apply(index)
        if leaf.getClass().getSimpleName() == "StreamingRelationV2":
            options = dict(leaf.extraOptions())
            if MARKER in options:
                found.append(options)
    return found


def _find_topics(jvm: Any, options: Mapping[str, str]) -> dict[str, str | None] | None:
    """Return the existing topics of a source with their ids; None if Kafka cannot be reached."""
    from py4j.protocol import Py4JJavaError

    settings = jvm.java.util.HashMap()
    settings.put("default.api.timeout.ms", _TIMEOUT_MS)
    for name, value in options.items():
        if name.startswith("kafka."):
            settings.put(name.removeprefix("kafka."), value)
    try:
        admin = jvm.org.apache.kafka.clients.admin.Admin.create(settings)
        try:
            listed = jvm.java.util.ArrayList(admin.listTopics().listings().get())
            there = {each.name(): str(each.topicId()) for each in listed}
        finally:
            admin.close()
    except Py4JJavaError as error:
        reason = str(error.java_exception).partition("\n")[0]
        _LOGGER.warning(
            "the topics of %s cannot be compared with the checkpoint: %s", options.get("kafka.bootstrap.servers"), reason
        )
        return None
    if "subscribepattern" in options:
        wanted = pattern_names(options["subscribepattern"], list(there))
    elif "assign" in options:
        wanted = list(json.loads(options["assign"]))
    else:
        wanted = options.get("subscribe", "").split(",")
    return {name: None if there[name] == _NO_ID else there[name] for name in wanted if name in there}


def _read(jvm: Any, files: Any, path: Any) -> str | None:
    if not files.exists(path):
        return None
    stream = files.open(path)
    try:
        text: str = jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
        return text
    finally:
        stream.close()
