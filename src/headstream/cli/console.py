"""`headstream console`: serves a web console for any log until Ctrl-C."""

from __future__ import annotations

import asyncio
import signal
import webbrowser
from typing import TYPE_CHECKING

import click

from headstream.cli.shared.checkpoints import pipelines_option, read_pipelines
from headstream.cli.shared.contexts import place_of
from headstream.cli.shared.output import print_text
from headstream.cli.shared.parameters import url_option
from headstream.cli.shared.schemas import open_schemas, schemas_option

if TYPE_CHECKING:
    from headstream.replicate.storage.places import Place
    from headstream.server.http.console.local import LocalConsole


@click.command()
@url_option
@click.option("--port", type=click.IntRange(0, 65_535), default=0, help="The port on 127.0.0.1. [default: any free port]")
@click.option("--browser/--no-browser", default=True, show_default=True, help="Open the console in a browser.")
@pipelines_option
@schemas_option
def console(url: str, port: int, browser: bool, pipelines: tuple[Place, ...], schemas: str | None) -> None:
    """Show a log in the browser: topics, messages, groups, dead letters, pipelines, and a server's users and clients.

    The log is a directory, a server or a Kafka cluster. The command serves the console to this machine only, until Ctrl-C. The
    printed address contains a token that is valid for one login. A server serves the same console at /console.

    \b
    Examples:
      headstream console --url file:///var/lib/shop
      headstream console --url headstream://ann@shop.example:8090 --port 3001 --no-browser
      headstream console --url file:///var/lib/shop --pipeline /data/checkpoint
      headstream console --url kafka://localhost:9092 --schemas http://registry:8081
    """
    from headstream.cli.shared.secrets import add_password
    from headstream.client.transports.remote.address import SCHEMES
    from headstream.connect import connect_plain
    from headstream.server.http.console.commands import ClientCommands
    from headstream.server.http.console.local import LocalConsole

    shown = place_of(url)
    explain_avro = open_schemas(schemas, "--schemas")
    with (
        connect_plain(add_password(url)) as log,
        read_pipelines(pipelines, needs_right=False, explain_avro=explain_avro) as reports,
    ):
        if shown.partition(":")[0] in SCHEMES:
            caller = log.server.caller
            served = LocalConsole(caller.call, log, shown, caller.address.username or log.server.me().user_id or 0, reports)
        else:
            served = LocalConsole(ClientCommands(log.transport).answer, log, shown, pipelines=reports)
        asyncio.run(_serve(served, port, browser))


async def _serve(served: LocalConsole, port: int, opens_browser: bool) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    address = await served.start(port)
    print_text(f"console {address}", flush=True)
    if opens_browser:
        await asyncio.to_thread(webbrowser.open, address)
    await ended.wait()
    await served.stop()
