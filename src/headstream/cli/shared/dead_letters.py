"""Where the commands of dead letters find them: in a topic of a log, or parked by a Replicate pipeline."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import click

from headstream.cli.shared.checkpoints import ask_pipeline, checkpoint_options, read_checkpoint
from headstream.cli.shared.filtering import FilterInput
from headstream.cli.shared.parameters import open_log, require_url, url_option

if TYPE_CHECKING:
    from headstream.client.client import Client
    from headstream.core.model.message import ReceivedMessage
    from headstream.replicate.parked.message_states import MessageStates
    from headstream.replicate.storage.places import Place


@dataclass(frozen=True, slots=True)
class DeadLetterTopic:
    """Dead letters of a topic of an open log; `states`: their states in the pipeline, None if the topic is not a pipeline's."""

    log: Client
    topic: str
    states: MessageStates | None

    def find(self, chosen: FilterInput) -> Iterator[ReceivedMessage]:
        """Yield dead letters that can be redriven and discarded, and match a filter."""
        from headstream.client.dead_letters.reading import iterate_dead_letters

        found = iterate_dead_letters(self.log, self.topic, chosen.where, chosen.on_error)
        return found if self.states is None else self.states.choose(found)

    def state_of(self, letter: ReceivedMessage) -> str:
        """Return the state of a dead letter, for people."""
        return letter.state.name.lower() if self.states is None else self.states.state_of(letter.offset)


@dataclass(frozen=True, slots=True)
class DeadLetterSource:
    """Where a command finds dead letters: `url`, or the log of the pipeline of a checkpoint."""

    topic: str
    url: str
    checkpoint: Place | None

    @contextmanager
    def open(self, *, is_plain: bool = False) -> Iterator[DeadLetterTopic]:
        """Yield the dead letters, and close the log afterwards; `is_plain`: without the configured interceptors."""
        if self.checkpoint is None:
            with open_log(self.url, is_plain=is_plain) as log:
                yield DeadLetterTopic(log, self.topic, None)
            return
        from headstream.replicate.parked.message_states import MessageStates

        with read_checkpoint(self.checkpoint, with_log=True) as read:
            directory = read()
            with open_log((directory / "log").resolve().as_uri()) as log:
                yield DeadLetterTopic(log, self.topic, MessageStates(directory, self.topic))

    def ask(self, kind: Literal["redrive", "discard"], offsets: Iterable[int]) -> int | str:
        """Request the pipeline to redrive or discard dead letters at ascending offsets; return the request's number or name."""
        from headstream.core.model.offset_ranges import ranges_of
        from headstream.replicate.parked.message_states import REDRIVEN_STATES
        from headstream.replicate.parked.requests import ParkedRanges, Selection

        assert self.checkpoint is not None
        selection = Selection(states=REDRIVEN_STATES, within=ParkedRanges(self.topic, tuple(ranges_of(offsets))))
        return ask_pipeline(self.checkpoint, kind, selection.to_document())


def source_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --url, --checkpoint and --config to a command with the argument TOPIC, which gets them all as `source`."""

    @functools.wraps(function)
    def with_source(topic: str, url: str | None, checkpoint: Place | None, **options: Any) -> Any:
        given = "" if checkpoint is not None else require_url(click.get_current_context(), None, url)
        return function(source=DeadLetterSource(topic, given, checkpoint), **options)

    return url_option(checkpoint_options(with_source, is_required=False), is_required=False)
