"""`headstream jars`: downloads the jars for the JVM."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from headstream.cli.shared.output import print_objects
from headstream.cli.shared.parameters import output_option

if TYPE_CHECKING:
    from headstream.spark.sessions.jar_sets import JarSet


@click.command()
@click.option("--quiet", is_flag=True, help="Print only errors.")
@click.option("--broker", is_flag=True, help="Also download a Kafka broker, for tests.")
@click.option(
    "--with",
    "extras",
    type=click.Choice(["s3", "azure", "gcs", "postgresql", "mariadb"]),
    multiple=True,
    help="Also download the jars for s3://, abfss:// (azure) or gs:// (gcs), or the JDBC driver of a database.",
)
@output_option
def jars(quiet: bool, broker: bool, extras: tuple[str, ...], output: str) -> None:
    """Download the jars that Spark needs, if they are missing, and print their location.

    HEADSTREAM_JARS names the jar directory, which can also contain jars that you provide.

    \b
    Examples:
      headstream jars
      headstream jars --with s3
      headstream jars --broker --quiet
    """
    from headstream.spark.sessions.jar_sets import BROKER, SETS, SPARK
    from headstream.spark.sessions.jars import fetch, find
    from headstream.spark.sessions.java import find_java
    from headstream.spark.sessions.spark_home import SESSION_VERSIONS, find_missing_jars, find_pyspark

    find_java()  # the jars are useless without Java
    rows: list[dict[str, Any]] = []
    find_pyspark(SESSION_VERSIONS)
    missing = find_missing_jars()
    if missing:
        click.echo(missing, err=True)
    sets = [*([] if missing else [SPARK]), *(SETS[name] for name in dict.fromkeys(extras)), *([BROKER] if broker else [])]
    for jar_set in sets:
        if not quiet and find(jar_set) is None:
            click.echo(f"downloading the missing jars of the set {jar_set.name}, once", err=True)
        with _progress(jar_set, quiet) as on_progress:
            paths = fetch(jar_set=jar_set, on_progress=on_progress)
        size = sum(path.stat().st_size for path in paths)
        row = {"set": jar_set.name, "jars": len(paths), "size_bytes": size, "folder": str(paths[0].parent)}
        rows.append(row if output == "table" else {**row, "files": [path.name for path in paths]})
    if not quiet:
        print_objects(rows, ("set", "jars", "size_bytes", "folder"), output)


@contextmanager
def _progress(jar_set: JarSet, quiet: bool) -> Iterator[Callable[[int, int], None] | None]:
    """Yield a function that shows the downloaded jars and bytes on a terminal, or None if there is no terminal."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    total = None if jar_set.transitive else len(jar_set.jars)  # Ivy finds further jars during the download
    columns = (TextColumn("downloading jars"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[megabytes]} MB"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=total, megabytes="0.0")

        def show(jars: int, size_bytes: int) -> None:
            progress.update(task, completed=jars, megabytes=f"{size_bytes / 1e6:.1f}")

        yield show
