"""`headstream server`: serve a log over TCP, HTTP and QUIC until a signal ends it."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headstream.cli.output import print_text

if TYPE_CHECKING:
    from headstream.server.app import Server

__all__ = ["server"]


@click.command()
@click.option("--data", metavar="DIR", help="The directory of the log; it is made where there is none.  [default: local_data]")
@click.option("--tcp", metavar="HOST:PORT", help="Where to listen for TCP; port 0 is any free one.  [default: 127.0.0.1:8090]")
@click.option("--http", metavar="HOST:PORT", help="Where to listen for HTTP.  [default: 127.0.0.1:3000]")
@click.option("--quic", metavar="HOST:PORT", help="Where to listen for QUIC; it is not served else.")
@click.option("--config", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path), help="Settings, in TOML.")
@click.option(
    "-c", "--config-provider", type=click.Choice(["file"]), hidden=True, help="Of Iggy's command line: what is here anyway."
)
@click.option("--fresh", is_flag=True, help="Remove the log that is in DIR first; --data or a setting has to name it.")
@click.option("--no-http", is_flag=True, help="Serve TCP alone.")
@click.option("--allow-default-password", is_flag=True, help="Listen on other addresses although the password is still iggy.")
@click.option("--log-format", type=click.Choice(["text", "json"]), help="How lines of the log look.  [default: text]")
@click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]), help="What is logged.  [default: info]")
def server(config: Path | None, no_http: bool, fresh: bool, **given: Any) -> None:
    """Serve a log to clients over TCP, HTTP and QUIC, Iggy's among them.

    The addresses are printed once it answers, and stand in DIR/runtime/current_config.toml. The log of what happens goes to
    standard error. SIGTERM or Ctrl-C ends it in good order, a second one at once.

    The first start makes the user iggy with the password iggy, unless IGGY_ROOT_USERNAME and IGGY_ROOT_PASSWORD say otherwise.
    Every setting of the file can be a variable, as in IGGY_TCP_ADDRESS or HEADSTREAM_MAX_CONNECTIONS. Variables
    can stand in the file .env of the working directory, or in that which IGGY_ENV_PATH names.

    \b
    Examples:
      headstream server --data /var/lib/shop
      headstream server --data /var/lib/shop --tcp 127.0.0.1:0 --http 127.0.0.1:0
      IGGY_ROOT_USERNAME=admin IGGY_ROOT_PASSWORD=… headstream server --tcp 0.0.0.0:8090 --http 0.0.0.0:3000
    """
    gc.disable()  # until it runs: what is imported is no garbage, and looking for some takes a tenth of the start
    from headstream.server.config import load_config

    names = {
        "data": "system.path",
        "tcp": "tcp.address",
        "http": "http.address",
        "quic": "quic.address",
        "log_format": "headstream.log_format",
        "log_level": "system.logging.level",
    }
    options = {names[name]: value for name, value in given.items() if name in names and value is not None}
    if given["allow_default_password"]:
        options["headstream.allow_default_password"] = True
    if given["quic"]:
        options["quic.enabled"] = True
    if no_http:
        options["http.enabled"] = False
    loaded = load_config(config, options=options, is_fresh=fresh)
    from headstream.server.run import run

    run(loaded, _show)


def _show(server: Server) -> None:
    for name, address in (("tcp", server.tcp_address), ("http", server.http_address), ("quic", server.quic_address)):
        if address is not None:
            print_text(f"{name} {address}", flush=True)
