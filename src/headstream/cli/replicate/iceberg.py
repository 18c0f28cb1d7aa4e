"""`headstream replicate iceberg check`: compares Iceberg tables with their Delta tables, and can recreate them."""

from __future__ import annotations

from contextlib import closing
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from headstream.cli.shared.checkpoints import config_option, read_checkpoint
from headstream.cli.shared.output import print_objects
from headstream.cli.shared.parameters import output_option
from headstream.errors import HeadstreamError, InvalidOptionError, ReplicateError

if TYPE_CHECKING:
    from headstream.replicate.iceberg.mirror import TableMirror

_COLUMNS: Final = (
    "table", "name", "state", "delta_version", "iceberg_version", "missing", "surplus", "delta_rows", "iceberg_rows", "reason",
)  # fmt: skip


@click.group()
def iceberg() -> None:
    """Check the Iceberg tables that [iceberg] in the pipeline's TOML file configures. They share the Delta tables' data files.

    \b
    Example:
      headstream replicate iceberg check --config pipeline.toml
    """


@iceberg.command()
@config_option("The pipeline's TOML file.", is_required=True)
@click.option("--table", "pattern", metavar="PATTERN", default="*", help="Check only matching target tables, for example shop.*.")
@click.option("--repair", is_flag=True, help="Rebuild Iceberg tables that differ, without their older snapshots.")
@output_option
def check(config_file: Path, pattern: str, repair: bool, output: str) -> None:
    """Compare each Iceberg table with its Delta table: columns, files, position deletes and row counts.

    A pipeline can run at the same time; changes not yet committed to Iceberg are reported as differences. With --repair,
    data files are neither written nor removed. The exit code is 1 if a table differs.

    \b
    Examples:
      headstream replicate iceberg check --config pipeline.toml
      headstream replicate iceberg check --config pipeline.toml --table SHOP.orders --repair
    """
    from headstream.replicate.parked.ledger import Ledger
    from headstream.replicate.run.mirrors import MirrorOpener
    from headstream.replicate.run.status import read_targets
    from headstream.replicate.settings.config_file import load_config
    from headstream.replicate.tables.table_places import has_table, place_table

    config = load_config(config_file)
    if config.iceberg is None:
        raise InvalidOptionError("the file has no section [iceberg]", where=str(config_file))
    opener, rows = MirrorOpener(config), []
    with read_checkpoint(config.checkpoint) as read, closing(Ledger(read() / "ledger.sqlite", read_only=True)) as ledger:
        names = sorted(set(read_targets(ledger).values()))
    for name in names:
        identifier = opener.identify(name)
        if identifier is None or not fnmatchcase(".".join(name), pattern) or not has_table(place_table(config.tables, *name)):
            continue
        try:
            mirror = opener.open(name)
        except Exception as error:  # any exception: catalogs are implemented by third parties
            raise ReplicateError(f"the Iceberg catalog cannot be opened: {error}", where=config.iceberg.catalog_name) from error
        rows.append({"table": ".".join(name), "name": ".".join(identifier), **_check(mirror, repair=repair)})
    print_objects(rows, _COLUMNS, output)
    bad = [row for row in rows if row["state"] == "different"]
    if bad:
        raise ReplicateError(
            f"{len(bad)} of {len(rows)} Iceberg tables differ from their Delta tables",
            where=str(config_file),
            advice=None if repair else "Run the pipeline; if tables still differ, run this command with --repair",
        )


def _check(mirror: TableMirror, *, repair: bool) -> dict[str, Any]:
    difference, state = mirror.check(), "equal"
    if repair and not difference.is_equal:
        try:
            mirror.repair()
        except HeadstreamError as error:
            return {**difference._asdict(), "state": "different", "reason": str(error)}
        difference, state = mirror.check(), "repaired"
    return {**difference._asdict(), "state": state if difference.is_equal else "different"}
