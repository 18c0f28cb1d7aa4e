"""`headstream erase`, killed with `kill -9` at each of its steps, beside readers: nothing else is lost, a second run finishes.

The command is killed at its operations on files and on the catalog, and at its requests to a server; a server is killed at its
own operations while it erases, and is started again. Meanwhile clients, and one of Kafka's, read everything in turn.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import headstream as hs
from headstream.log.checks.verification import Verification
from headstream.log.system.files import OsFiles
from tests.campaigns.killed_servers import KilledServer
from tests.support.log import erased_logs
from tests.support.log.kill_switch import KilledCommand, KillSwitch


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("erasures") / "log"
    erased_logs.make_template(directory)
    return directory


@pytest.fixture(scope="module")
def content(template: Path) -> erased_logs.Content:
    return erased_logs.read_directory(template)


def command(url: str, topic: str, *more: str) -> tuple[str, ...]:
    named = ("--where", f"user = '{erased_logs.PERSON[topic]}'", "--dead-letter", erased_logs.DEAD)
    return ("erase", topic, *named, "--yes", "--output", "json", "--url", url, *more)


def report_of(output: str) -> dict[str, Any] | None:
    """Return a report, None if it was not printed to its end."""
    try:
        report: dict[str, Any] = json.loads(output)
    except ValueError:
        return None
    return report


def check_end(directory: Path, topic: str, content: erased_logs.Content) -> None:
    """Check a log whose process has ended, after an erasure: what was to go is gone, all else is there, and it is sound."""
    assert erased_logs.find_bytes(directory, erased_logs.PERSON[topic]) == []
    going = erased_logs.has_to_go(content, topic)
    assert erased_logs.read_directory(directory) == {place: each for place, each in content.items() if place not in going}
    assert [finding for finding in Verification(str(directory), OsFiles()).run() if finding.is_damage] == []


def check_between(directory: Path, topic: str, content: erased_logs.Content, report: dict[str, Any] | None) -> None:
    """Check a log after a kill: what was not to go is there, and what a report says is gone, is."""
    found, going = erased_logs.read_directory(directory), erased_logs.has_to_go(content, topic)
    assert content.keys() - found.keys() <= going
    assert {place: found[place] for place in found if place not in going} == {
        place: each for place, each in content.items() if place not in going
    }
    if report is not None:
        assert report["found"] == len(going)
        assert erased_logs.find_bytes(directory, erased_logs.PERSON[topic]) == []


# -- in a directory -------------------------------------------------------------------------------------------------


def erase_in_directory(template: Path, place: Path, topic: str, content: erased_logs.Content, killed_at: int) -> bool:
    """Kill the command at an operation, run it again, and return whether it was killed."""
    directory = place / "log"
    shutil.copytree(template, directory)
    url, going, switch = directory.as_uri(), erased_logs.has_to_go(content, topic), KillSwitch()
    with hs.connect(url) as reader, erased_logs.watching(partial(erased_logs.look_through, reader), content, going):
        switch.arm(killed_at)
        first = KilledCommand(*command(url, topic), output=place / "first", prepare=switch.count_files)
        code = first.finish()
        assert (code < 0) == switch.was_used, first.errors
        check_between(directory, topic, content, report_of(first.output))
        second = KilledCommand(*command(url, topic), output=place / "second")
        assert second.finish() == 0, second.errors
    again = KilledCommand(*command(url, topic, "--dry-run"), output=place / "again")
    assert again.finish() == 0, again.errors
    report = report_of(again.output)
    assert report is not None
    assert report["found"] == 0
    check_end(directory, topic, content)
    shutil.rmtree(place)
    return switch.was_used


def erase_at_each(run: Callable[[Path, int], bool], place: Path, begin: int, step: int, least: int) -> None:
    """Kill at operations of a distance, until there are no more; at least so many are counted."""
    killed_at = begin
    while run(place / str(killed_at), killed_at):
        killed_at += step
    assert killed_at > least, f"it has {killed_at} operations"


EACH = pytest.mark.soak
STEPS = [pytest.param(1, 211, id="some"), pytest.param(1, 1, marks=EACH, id="each")]
NIGHTLY_STEPS = [pytest.param(1, 131, marks=pytest.mark.nightly, id="some"), STEPS[1]]


@pytest.mark.parametrize("topic", [erased_logs.TOPICS[0], pytest.param(erased_logs.TOPICS[1], marks=pytest.mark.nightly)])
@pytest.mark.parametrize(("begin", "step"), STEPS)
def test_the_command_is_killed_in_a_directory_and_a_second_run_finishes(
    template: Path, content: erased_logs.Content, tmp_path: Path, topic: str, begin: int, step: int
) -> None:
    def run(place: Path, killed_at: int) -> bool:
        place.mkdir()
        return erase_in_directory(template, place, topic, content, killed_at)

    erase_at_each(run, tmp_path, begin, step, 60)


# -- through a server -----------------------------------------------------------------------------------------------


@contextmanager
def served(template: Path, place: Path, prepare: Callable[[], None] | None = None) -> Iterator[KilledServer]:
    directory = place / "log"
    shutil.copytree(template, directory)
    server = KilledServer(directory, has_kafka=True, segment_bytes=erased_logs.SEGMENT_BYTES, prepare=prepare)
    try:
        yield server
    finally:
        server.kill()


@contextmanager
def readers_of(server: KilledServer, content: erased_logs.Content, going: set[erased_logs.Place]) -> Iterator[None]:
    """Read through the server with a client of Headstream and with one of Kafka."""
    assert server.kafka_port is not None
    kafka = erased_logs.KafkaReader(server.kafka_port)
    try:
        with (
            hs.connect(url_of(server)) as reader,
            erased_logs.watching(partial(erased_logs.look_through, reader), content, going),
            erased_logs.watching(kafka.look, content, going),
        ):
            yield
    finally:
        kafka.close()


def url_of(server: KilledServer) -> str:
    return f"headstream://iggy:iggy@127.0.0.1:{server.tcp_port}"


def erase_through_killed_server(template: Path, place: Path, topic: str, content: erased_logs.Content, killed_at: int) -> bool:
    """Kill the server at an operation of an erasure, start it again, and return whether it was killed."""
    switch = KillSwitch()
    with served(template, place, switch.count_files) as server:
        url, going = url_of(server), erased_logs.has_to_go(content, topic)
        with readers_of(server, content, going):
            switch.arm(killed_at)
            first = KilledCommand(*command(url, topic), output=place / "first")
            while first.is_running and not switch.was_used:
                server.join(0.05)
            was_killed = switch.was_used
            if was_killed:
                assert server.join(erased_logs.END_S)
                server.kill()
                server.start()
            switch.arm(0)
            code = first.finish()
            report = report_of(first.output)
            assert (code == 0) == (report is not None), first.errors
            if report is not None:
                assert report["found"] == len(going)
                assert erased_logs.find_bytes(place / "log", erased_logs.PERSON[topic]) == []
            second = KilledCommand(*command(url, topic), output=place / "second")
            assert second.finish() == 0, second.errors
            assert erased_logs.find_bytes(place / "log", erased_logs.PERSON[topic]) == []
    check_end(place / "log", topic, content)
    shutil.rmtree(place)
    return was_killed


@pytest.mark.parametrize("topic", [pytest.param(erased_logs.TOPICS[0], marks=pytest.mark.nightly), erased_logs.TOPICS[1]])
@pytest.mark.parametrize(("begin", "step"), [pytest.param(1, 787, id="few"), *NIGHTLY_STEPS])
def test_the_server_is_killed_while_it_erases_and_nothing_comes_back(
    template: Path, content: erased_logs.Content, tmp_path: Path, topic: str, begin: int, step: int
) -> None:
    def run(place: Path, killed_at: int) -> bool:
        place.mkdir()
        return erase_through_killed_server(template, place, topic, content, killed_at)

    erase_at_each(run, tmp_path, begin, step, 60)


@pytest.mark.parametrize("topic", [pytest.param(erased_logs.TOPICS[0], marks=pytest.mark.nightly), erased_logs.TOPICS[1]])
@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.nightly)])
def test_the_command_is_killed_at_each_request_to_a_server_and_a_second_run_finishes(
    template: Path, content: erased_logs.Content, tmp_path: Path, topic: str, step: int
) -> None:
    def run(place: Path, killed_at: int) -> bool:
        place.mkdir()
        switch, going = KillSwitch(), erased_logs.has_to_go(content, topic)
        with served(template, place) as server, readers_of(server, content, going):
            switch.arm(killed_at)
            first = KilledCommand(*command(url_of(server), topic), output=place / "first", prepare=switch.count_requests)
            assert (first.finish() < 0) == switch.was_used, first.errors
            second = KilledCommand(*command(url_of(server), topic), output=place / "second")
            assert second.finish() == 0, second.errors
        check_end(place / "log", topic, content)
        shutil.rmtree(place)
        return switch.was_used

    erase_at_each(run, tmp_path, 1, step, 5)
