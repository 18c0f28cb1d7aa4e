"""Avro schemas for commands that serve a console: the location of the schemas, and the credentials of a registry."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from headstream.errors import InvalidInputError, InvalidOptionError

_TIMEOUT_MS: Final = 3000
"""Request timeout, milliseconds; a console page waits for the request."""

schemas_option = click.option(
    "--schemas",
    metavar="PLACE",
    envvar="HEADSTREAM_SCHEMAS",
    help="URL of a schema registry, or directory of .avsc files, to decode Avro payloads.",
)


def open_schemas(place: str | None, where: str) -> Callable[[bytes], dict[str, Any]] | None:
    """Return a function that explains an Avro payload, or None if there are no schemas.

    The credentials of a registry are in HEADSTREAM_SCHEMAS_USERNAME and HEADSTREAM_SCHEMAS_PASSWORD, or HEADSTREAM_SCHEMAS_TOKEN.

    Raises:
        InvalidInputError: the directory does not exist.
        InvalidOptionError: the URL is invalid.
    """
    if not place:
        return None
    from headstream.replicate.schemas.avro_payloads import AvroPayloads
    from headstream.replicate.settings.registry_settings import RegistrySettings

    if "://" not in place:
        directory = Path(place).absolute()
        if not directory.is_dir():
            raise InvalidInputError(f"there is no directory {place}", where=where, advice="Pass a directory, or a registry URL")
        return AvroPayloads(RegistrySettings(directory=directory)).explain
    user, password, token = (os.environ.get(f"HEADSTREAM_SCHEMAS_{name}") for name in ("USERNAME", "PASSWORD", "TOKEN"))
    try:
        settings = RegistrySettings(url=place, user=user, password=password, token=token, timeout_ms=_TIMEOUT_MS, retries=0)
    except InvalidOptionError as error:
        advice = f"{error.advice}. Set credentials in HEADSTREAM_SCHEMAS_USERNAME and _PASSWORD, or in HEADSTREAM_SCHEMAS_TOKEN"
        raise InvalidOptionError(error.what, where=where, advice=advice) from None
    return AvroPayloads(settings).explain
