"""`headstream replicate iceberg check`: compare the Iceberg tables with the Delta tables beside them, and make them anew."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from headstream.cli.shared.checkpoints import read_checkpoint
from headstream.cli.shared.output import print_objects
from headstream.cli.shared.parameters import output_option
from headstream.errors import HeadstreamError, InvalidOptionError, ReplicateError

if TYPE_CHECKING:
    from headstream.replicate.iceberg.mirror import TableMirror
    from headstream.replicate.settings.config import ReplicateConfig

__all__ = ["iceberg"]

_COLUMNS: Final = (
    "table", "name", "state", "delta_version", "iceberg_version", "missing", "surplus", "delta_rows", "iceberg_rows", "reason",
)  # fmt: skip


@click.group()
def iceberg() -> None:
    """Iceberg tables beside the Delta tables, with the same data files: [iceberg] in the pipeline's TOML file.

    \b
    Example:
      headstream replicate iceberg check --config pipeline.toml
    """


@iceberg.command()
@click.option(
    "--config",
    "config_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    required=True,
    help="The pipeline's TOML file.",
)
@click.option("--table", "pattern", metavar="PATTERN", default="*", help="Only target tables that match, as in shop.*.")
@click.option("--repair", is_flag=True, help="Make Iceberg tables that differ anew, without their older snapshots.")
@output_option
def check(config_file: Path, pattern: str, repair: bool, output: str) -> None:
    """Compare each Iceberg table with its Delta table: columns, files, position deletes, and rows by statistics.

    A pipeline may run meanwhile; what it has not committed to Iceberg yet shows as a difference. --repair writes no data file and
    removes none. The exit code is 1 if a table differs.

    \b
    Examples:
      headstream replicate iceberg check --config pipeline.toml
      headstream replicate iceberg check --config pipeline.toml --table SHOP.orders --repair
    """
    from headstream.replicate.settings.config_file import load_config

    config = load_config(config_file)
    if config.iceberg is None:
        raise InvalidOptionError("the file has no [iceberg]", where=str(config_file))
    rows = [_check(name, identifier, mirror, repair=repair) for name, identifier, mirror in _open(config, pattern)]
    print_objects(rows, _COLUMNS, output)
    bad = [row for row in rows if row["state"] not in ("equal", "repaired")]
    if bad:
        raise ReplicateError(
            f"{len(bad)} of {len(rows)} Iceberg tables differ from their Delta tables",
            where=str(config_file),
            advice=None if repair else "Wait for the pipeline, or run it; if they still differ, run with --repair",
        )


def _open(config: ReplicateConfig, pattern: str) -> list[tuple[str, str, TableMirror]]:
    """Return the tables that exist and are chosen: name, name in the catalog, and mirror."""
    from fnmatch import fnmatchcase

    from headstream.replicate.iceberg.access import check_pyiceberg, open_catalog
    from headstream.replicate.iceberg.mirrors import open_mirror
    from headstream.replicate.parked.ledger import Ledger
    from headstream.replicate.run.status import read_targets
    from headstream.replicate.tables.table_places import has_table, place_table

    settings = config.iceberg
    assert settings is not None, "check() has looked"
    check_pyiceberg()
    with read_checkpoint(config.checkpoint) as read, closing(Ledger(read() / "ledger.sqlite", read_only=True)) as ledger:
        names = sorted(set(read_targets(ledger).values()))
    try:
        catalog = open_catalog(settings, config.tables)
    except Exception as error:  # of any kind: a catalog's implementation is not ours
        raise ReplicateError(f"the Iceberg catalog cannot be opened: {error}", where=settings.catalog_name) from error
    found = []
    for name in names:
        identifier, place = settings.identify(*name), place_table(config.tables, *name)
        if identifier is not None and fnmatchcase(".".join(name), pattern) and has_table(place):
            mirror = open_mirror(catalog, settings, identifier, place, config.vacuum_kept_us)
            found.append((".".join(name), ".".join(identifier), mirror))
    return found


def _check(name: str, identifier: str, mirror: TableMirror, *, repair: bool) -> dict[str, Any]:
    difference = mirror.check()
    state = "equal" if difference.is_equal else "different"
    if repair and not difference.is_equal:
        try:
            mirror.repair()
        except HeadstreamError as error:
            return {"table": name, "name": identifier, **asdict(difference), "state": "different", "reason": str(error)}
        difference = mirror.check()
        state = "repaired" if difference.is_equal else "different"
    return {"table": name, "name": identifier, "state": state, **asdict(difference)}
