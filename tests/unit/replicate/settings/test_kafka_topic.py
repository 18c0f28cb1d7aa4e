"""Topics of Kafka clusters in settings: what URLs name, what is refused, and that no error shows a password."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headstream.errors import InvalidOptionError
from headstream.replicate.settings.config import ReplicateConfig
from headstream.replicate.settings.config_file import load_config
from headstream.replicate.settings.kafka_topic import KafkaTopic, parse_kafka_topic

LEAST = 'source = "file:///log"\ntopics = ["cdc/data"]\ntables = "tables"\ncheckpoint = "checkpoint"\n'


def make_config(directory: Path, **settings: Any) -> ReplicateConfig:
    places: dict[str, Any] = {"tables": directory / "tables", "checkpoint": directory / "checkpoint"}
    return ReplicateConfig(source="file:///log", topics=("cdc/data",), **places, **settings)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "kafka://h:9092/replicate.delayed?kafka.security.protocol=SSL",
            KafkaTopic("kafka://h:9092?kafka.security.protocol=SSL", "replicate/delayed", "kafka://h:9092/replicate.delayed"),
        ),
        (
            "kafka://user:pass%2Fword@h:9092,[::1]:9093/delayed",
            KafkaTopic("kafka://user:pass%2Fword@h:9092,[::1]:9093", "kafka/delayed", "kafka://h:9092,[::1]:9093/delayed"),
        ),
        ("kafka://h:9092/cdc/delayed", KafkaTopic("kafka://h:9092", "cdc/delayed", "kafka://h:9092/cdc/delayed")),
    ],
)
def test_parse_kafka_topic_splits_the_topic_from_the_cluster(text: str, expected: KafkaTopic) -> None:
    assert parse_kafka_topic(text) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("kafka://user:secret@h:9092", "the URL must name a topic"),
        ("kafka://user:secret@h:9092/a b", "is not a valid topic name in Kafka"),
        ("kafka://user:secret@:9092/cdc.delayed", "the URL must name a Kafka cluster"),
        ("kafka://user:sec/ret@h:9092/cdc.delayed", "the URL must name a topic"),
    ],
)
@pytest.mark.parametrize("setting", ["delayed", "dead_letter"])
def test_settings_refuse_what_names_no_topic_without_showing_the_password(
    tmp_path: Path, setting: str, text: str, reason: str
) -> None:
    file = tmp_path / "pipeline.toml"
    file.write_text(f'{LEAST}{setting} = "{text}"\n')
    with pytest.raises(InvalidOptionError, match=f"{setting}: .*{reason}") as raised:
        load_config(file)
    assert "sec" not in str(raised.value)


def test_delayed_and_dead_letter_cannot_be_one_topic(tmp_path: Path) -> None:
    url = "kafka://user:secret@h:9092/cdc.aside"
    with pytest.raises(InvalidOptionError, match="delayed and dead_letter must be different topics") as raised:
        make_config(tmp_path, delayed=url, dead_letter=url)
    assert "secret" not in str(raised.value)


def test_dead_letter_is_a_topic_of_a_cluster(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.toml"
    file.write_text(f'{LEAST}dead_letter = "shop/dead"\n')
    with pytest.raises(InvalidOptionError, match=r"dead_letter: .*kafka://host:9092"):
        load_config(file)


def test_a_copy_of_delayed_messages_leaves_the_topic_of_the_pipeline_as_it_is(tmp_path: Path) -> None:
    assert make_config(tmp_path, delayed="kafka://h:9092/cdc.delayed").delayed_topic == "replicate/delayed"
    assert make_config(tmp_path, delayed="cdc/later").delayed_topic == "cdc/later"
