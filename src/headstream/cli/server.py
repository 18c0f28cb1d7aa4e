"""`headstream server`: serves a log over TCP, HTTP, QUIC and Kafka's protocol until a signal arrives."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headstream.cli.shared.output import print_text

if TYPE_CHECKING:
    from headstream.server.app import ServerApp


@click.command()
@click.option("--data", metavar="DIR", help="The log directory; created if missing.  [default: local_data]")
@click.option("--tcp", metavar="HOST:PORT", help="TCP address; port 0 chooses a free port.  [default: 127.0.0.1:8090]")
@click.option("--http", metavar="HOST:PORT", help="Address of the HTTP listener.  [default: 127.0.0.1:3000]")
@click.option("--quic", metavar="HOST:PORT", help="QUIC address, for example 127.0.0.1:8080; off by default.")
@click.option("--kafka", metavar="HOST:PORT", help="Address for Kafka clients, for example 127.0.0.1:9092; off by default.")
@click.option("--kafka-user", metavar="NAME", help="User for Kafka clients that do not log in.  [default: reject such clients]")
@click.option("--config", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path), help="TOML file with settings.")
@click.option(
    "-c", "--config-provider", type=click.Choice(["file"]), hidden=True, help="Accepted for Iggy's command line; no effect."
)
@click.option("--fresh", is_flag=True, help="Delete the existing log first; requires --data or the setting system.path.")
@click.option("--console/--no-console", default=None, help="Serve the console at /console.  [default: on loopback addresses]")
@click.option(
    "--pipeline", "pipelines", multiple=True, metavar="CHECKPOINT",
    help="Checkpoint of a Replicate pipeline to show in the console; repeatable.",
)  # fmt: skip
@click.option(
    "--schemas",
    metavar="PLACE",
    help="URL of a schema registry, or directory of .avsc files, to decode Avro payloads in the console.",
)
@click.option(
    "--allowed-host", "allowed_hosts", multiple=True, metavar="NAME",
    help="Accept HTTP requests for this host name, for example the name of a proxy; repeatable.",
)  # fmt: skip
@click.option("--no-http", is_flag=True, help="Disable the HTTP listener.")
@click.option("--allow-default-password", is_flag=True, help="Listen on non-local addresses even with the default password iggy.")
@click.option("--log-format", type=click.Choice(["text", "json"]), help="Format of log lines.  [default: text]")
@click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]), help="Minimum log level.  [default: info]")
def server(config: Path | None, no_http: bool, fresh: bool, **given: Any) -> None:
    """Serve a log to Headstream, Iggy and Kafka clients, over TCP, QUIC, HTTP and Kafka's protocol.

    A ready server prints its addresses, and writes them to DIR/runtime/current_config.toml. Logs are written to standard error.
    SIGTERM or Ctrl-C stops the server gracefully; a second signal stops it immediately.

    The first start creates the user iggy with the password iggy, unless IGGY_ROOT_USERNAME and IGGY_ROOT_PASSWORD are set.
    Environment variables can set every setting of the --config file, for example IGGY_TCP_ADDRESS or HEADSTREAM_MAX_CONNECTIONS.
    Variables are also read from the file .env in the working directory, or from the file named by IGGY_ENV_PATH.

    \b
    Examples:
      headstream server --data /var/lib/shop
      headstream server --data /var/lib/shop --tcp 127.0.0.1:0 --http 127.0.0.1:0
      IGGY_ROOT_USERNAME=admin IGGY_ROOT_PASSWORD=… headstream server --tcp 0.0.0.0:8090 --http 0.0.0.0:3000
    """
    gc.disable()  # until the server runs: imports create no garbage, and garbage collection takes a tenth of the startup time
    from headstream.server.config.config import load_config

    names = {
        "data": "system.path",
        "tcp": "tcp.address",
        "http": "http.address",
        "quic": "quic.address",
        "kafka": "kafka.address",
        "kafka_user": "kafka.anonymous_user",
        "log_format": "headstream.log_format",
        "log_level": "system.logging.level",
        "schemas": "headstream.schemas",
    }
    options = {names[name]: value for name, value in given.items() if name in names and value is not None}
    if given["allow_default_password"]:
        options["headstream.allow_default_password"] = True
    if given["console"] is not None:
        options["headstream.console"] = given["console"]
    for transport in ("quic", "kafka"):
        if given[transport]:
            options[f"{transport}.enabled"] = True
    if no_http:
        options["http.enabled"] = False
    for name in ("pipelines", "allowed_hosts"):
        if given[name]:
            options[f"headstream.{name}"] = list(given[name])
    loaded = load_config(config, options=options, is_fresh=fresh)
    from headstream.server.run import run

    if not loaded.pipelines and not loaded.schemas:
        run(loaded, _show)
        return
    from headstream.cli.shared.checkpoints import find_checkpoint, read_pipelines
    from headstream.cli.shared.schemas import open_schemas

    explain_avro = open_schemas(loaded.schemas, "headstream.schemas")
    places = [find_checkpoint(text, "headstream.pipelines") for text in loaded.pipelines]
    with read_pipelines(places, needs_right=True, explain_avro=explain_avro) as reports:
        run(loaded, _show, reports)


def _show(server: ServerApp) -> None:
    addresses = (server.tcp_address, server.http_address, server.quic_address, server.kafka_address)
    for name, address in zip(("tcp", "http", "quic", "kafka"), addresses, strict=True):
        if address is not None:
            print_text(f"{name} {address}", flush=True)
    if server.console_url is not None:
        print_text(f"console {server.console_url}", flush=True)
