"""A pipeline's checkpoint for commands that read it: options, and a local copy of a checkpoint in an object store."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import click

from headstream.cli.shared.parameters import StorablePlace
from headstream.errors import HeadstreamError, InvalidInputError

if TYPE_CHECKING:
    from headstream.replicate.codec import TableMetadata
    from headstream.replicate.parked.requests import RequestKind
    from headstream.replicate.run.report import PipelineReport
    from headstream.replicate.storage.places import Place
    from headstream.server.http.pipeline_reports import PipelineReports

_READ: Final = ("ledger.sqlite", "zone")
_LOG: Final = "log"
_TABLES: Final = "tables.sqlite"


def config_option(text: str, *, is_required: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add --config FILE, a pipeline's TOML file; the command receives its path as `config_file`."""
    path = click.Path(exists=True, dir_okay=False, path_type=Path)
    return click.option("--config", "config_file", type=path, metavar="FILE", required=is_required, help=text)


def checkpoint_options(function: Callable[..., Any], *, is_required: bool = True) -> Callable[..., Any]:
    """Add --checkpoint and --config to a command, which receives the checkpoint's location as `checkpoint`."""

    @functools.wraps(function)
    def with_place(*arguments: Any, checkpoint: Place | None, config_file: Path | None, **options: Any) -> Any:
        is_given = is_required or checkpoint is not None or config_file is not None
        return function(*arguments, checkpoint=_find_checkpoint(checkpoint, config_file) if is_given else None, **options)

    config = config_option("The pipeline's TOML file, which sets the checkpoint and, for an object store, [storage].")
    checkpoint_option = click.option(
        "--checkpoint",
        type=StorablePlace(exists=True),
        help="Directory or URI of the pipeline's checkpoint. Settings for a URI are read from [storage] in --config, and from "
        "the environment.",
    )
    return checkpoint_option(config(with_place))


pipelines_option = click.option(
    "--pipeline",
    "pipelines",
    multiple=True,
    type=StorablePlace(exists=True),
    metavar="CHECKPOINT",
    help="Checkpoint (directory or URI) of a Replicate pipeline to show; repeatable.",
)


def _find_checkpoint(checkpoint: Place | None, config_file: Path | None) -> Place:
    from headstream.replicate.settings.config_file import load_checkpoint

    if config_file is None:
        if checkpoint is None:
            raise click.UsageError("Missing option '--checkpoint': set it, or use the pipeline's --config FILE")
        return checkpoint
    place = load_checkpoint(config_file, checkpoint)
    if isinstance(place, Path) and not place.is_dir():
        raise InvalidInputError(
            "there is no checkpoint yet", where=str(place), advice="Run the pipeline once, or correct `checkpoint` in the file"
        )
    return place


def find_checkpoint(text: str, where: str) -> Place:
    """Return a checkpoint's location, a directory or URI; InvalidInputError if the directory does not exist."""
    from headstream.replicate.storage.places import parse_place

    place = parse_place(text, is_table=False)
    if isinstance(place, Path) and not place.is_dir():
        raise InvalidInputError(
            f"there is no checkpoint {text}", where=where, advice="Run the pipeline once, or correct its path"
        )
    return place


def ask_pipeline(checkpoint: Place, kind: RequestKind, arguments: dict[str, Any]) -> int | str:
    """Send a request with JSON arguments to a pipeline; return the request's number, or its name in an object store."""
    from headstream.replicate.parked.ledger import Ledger
    from headstream.replicate.parked.remote_requests import ask_remotely
    from headstream.replicate.parked.requests import Requests

    now_us = time.time_ns() // 1000
    if not isinstance(checkpoint, Path):
        return ask_remotely(checkpoint, kind, arguments, now_us)
    with closing(Ledger(checkpoint / "ledger.sqlite")) as ledger:
        return Requests(ledger).ask(kind, arguments, now_us)


@contextmanager
def read_checkpoint(checkpoint: Place, *, with_log: bool = False, with_tables: bool = False) -> Iterator[Callable[[], Path]]:
    """Yield a function that returns a directory with a checkpoint's newest ledger and schema store.

    From an object store, `with_log` also fetches the pipeline's log, and `with_tables` the state of its tables.
    """
    if isinstance(checkpoint, Path):
        yield lambda: checkpoint
        return
    from headstream.replicate.checkpoint.reading import CheckpointReader

    with TemporaryDirectory(prefix="headstream-") as directory:
        only = (*_READ, *([_LOG] if with_log else []), *([_TABLES] if with_tables else []))
        reader = CheckpointReader(checkpoint, Path(directory), only)

        def read() -> Path:
            reader.refresh()
            return Path(directory)

        yield read


@contextmanager
def read_pipelines(
    checkpoints: Iterable[Place], *, needs_right: bool, explain_avro: Callable[[bytes], dict[str, Any]] | None = None
) -> Iterator[PipelineReports]:
    """Yield the pipelines of a console, and the function that decodes its messages.

    Args:
        needs_right: Whether only users with the right to read the server see the pipelines.
        explain_avro: Decodes a payload that contains the id of its Avro schema.
    """
    from headstream.server.http.pipeline_reports import PipelineReports

    with _open_reports(checkpoints) as reports:
        readers = {name: report.read for name, report in reports.items()}
        explain = explain_by(list(reports.values())) if reports else None
        yield PipelineReports(readers, needs_right=needs_right, explain=explain, explain_avro=explain_avro)


def explain_by(reports: Sequence[PipelineReport]) -> Callable[[bytes], dict[str, Any]]:
    """Return a function that explains a Replicate message with the schema stores of the pipelines."""
    from headstream.replicate.schemas.explanation import Explainer

    def find(schema_id: str) -> TableMetadata | None:
        for report in reports:
            with suppress(HeadstreamError, OSError):  # the pipelines page reports a store that cannot be read
                found = report.find_schema(schema_id)
                if found is not None:
                    return found
        return None

    return lambda payload: Explainer(find, advice="no registered pipeline has received it").explain(payload)


@contextmanager
def _open_reports(checkpoints: Iterable[Place]) -> Iterator[dict[str, PipelineReport]]:
    places = list(checkpoints)
    if not places:
        yield {}
        return
    from headstream.replicate.run.report import PipelineReport

    with ExitStack() as stack:
        yield {str(place): PipelineReport(stack.enter_context(read_checkpoint(place))) for place in places}
