"""`headstream jars`: the JVM's jars, fetched once and kept."""

from __future__ import annotations

from typing import Any

import click

from headstream.cli.output import print_objects
from headstream.cli.parameters import output_option

__all__ = ["jars"]


@click.command()
@click.option("--quiet", is_flag=True, help="Print nothing unless it fails.")
@click.option("--broker", is_flag=True, help="Fetch a Kafka broker too, for tests.")
@output_option
def jars(quiet: bool, broker: bool, output: str) -> None:
    """Fetch the jars that Spark needs, where they are not there yet, and say where they are.

    HEADSTREAM_JARS names the folder to keep them in; it may also be one with jars that were put there by hand.

    \b
    Examples:
      headstream jars
      headstream jars --broker --quiet
    """
    from headstream.spark.jars import BROKER, SPARK, fetch, find
    from headstream.spark.java import find_java

    find_java()  # jars that are there already are no use without it either
    rows: list[dict[str, Any]] = []
    for jar_set in (SPARK, BROKER) if broker else (SPARK,):
        if not quiet and find(jar_set) is None:
            click.echo(f"fetching the jars of the set {jar_set.name}, once", err=True)
        paths = fetch(jar_set=jar_set)
        size = sum(path.stat().st_size for path in paths)
        row = {"set": jar_set.name, "jars": len(paths), "size_bytes": size, "folder": str(paths[0].parent)}
        rows.append(row if output == "table" else {**row, "files": [path.name for path in paths]})
    if not quiet:
        print_objects(rows, ("set", "jars", "size_bytes", "folder"), output)
