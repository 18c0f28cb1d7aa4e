"""Contexts: named servers and logs, stored in a file that only the user can read.

    {"current": "prod", "contexts": {"prod": {"url": "headstream://mq:8090?tls=true", "username": "ann", "password": null}}}

The file is $XDG_CONFIG_HOME/headstream/contexts.json (default ~/.config), with mode 0600. If a secret is omitted, commands take
it from HEADSTREAM_PASSWORD or HEADSTREAM_TOKEN, or ask for it.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote

from headstream.client.transports.remote.address import restore_slashes
from headstream.core.model.urls import split_url
from headstream.errors import AlreadyExistsError, InvalidInputError, NotFoundError, StorageError

CONTEXT_VARIABLE: Final = "HEADSTREAM_CONTEXT"
_SERVERS: Final = ("headstream", "http", "https", "quic")


@dataclass(frozen=True, slots=True)
class Context:
    """A named server or log.

    Args:
        url: The URL without credentials.
        password: The password; None if commands ask for it.
        token: A personal access token instead of user name and password, or None.
    """

    url: str
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)

    @classmethod
    def of_url(cls, url: str) -> Context:
        """Create a context from a URL, and separate the credentials; InvalidInputError if the URL is invalid."""
        try:
            parts = restore_slashes(split_url(url))
            username, password = unquote(parts.username or "") or None, unquote(parts.password or "") or None
        except ValueError:
            raise InvalidInputError("the value is not a URL") from None
        if not parts.scheme:
            raise InvalidInputError("the value is not a URL", advice="Write headstream://user@host:8090 or file:///directory")
        bare = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
        if password and not username:
            return cls(bare, token=password)
        return cls(bare, username, password)

    @property
    def is_server(self) -> bool:
        """Whether the context is a server, which requires a login."""
        scheme = split_url(self.url).scheme
        return scheme in _SERVERS or (scheme == "kafka" and self.username is not None)

    @property
    def has_secret(self) -> bool:
        """Whether a password or a token is stored."""
        return self.password is not None or self.token is not None

    def to_url(self) -> str:
        """Return the URL with the stored credentials."""
        parts = split_url(self.url)
        if self.token is not None:
            credentials = f":{quote(self.token, safe='')}@"
        elif self.username is not None:
            secret = "" if self.password is None else f":{quote(self.password, safe='')}"
            credentials = f"{quote(self.username, safe='')}{secret}@"
        else:
            credentials = ""
        return parts._replace(netloc=credentials + parts.netloc).geturl()


def place_of(url: str) -> str:
    """Return a URL without credentials, options and fragment, for display; InvalidInputError if the URL is invalid."""
    return split_url(Context.of_url(url).url)._replace(query="", fragment="").geturl()


def contexts_path() -> Path:
    """Return the path of the contexts file."""
    home = os.environ.get("XDG_CONFIG_HOME")
    return (Path(home) if home else Path.home() / ".config") / "headstream" / "contexts.json"


class Contexts:
    """The contexts of a user, read from the contexts file if it exists. Changes are written to the file.

    Raises:
        StorageError: the file cannot be read.
        InvalidInputError: the file is invalid.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.current: str | None = None
        self._contexts: dict[str, Context] = {}
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return
        except OSError as error:
            raise StorageError(f"contexts cannot be read: {error.strerror}", where=str(path)) from None
        try:
            document = json.loads(text)
            self._contexts = {name: Context(**members) for name, members in document["contexts"].items()}
            self.current = document.get("current")
        except (ValueError, TypeError, KeyError, AttributeError):
            raise InvalidInputError(
                "the file contains no valid contexts", where=str(path), advice="Delete the file, and create the contexts again"
            ) from None

    def items(self) -> list[tuple[str, Context]]:
        """Return all names with their contexts, sorted by name."""
        return sorted(self._contexts.items())

    def get(self, name: str) -> Context:
        """Return a context; NotFoundError if the name is unknown."""
        try:
            return self._contexts[name]
        except KeyError:
            advice = f"Use one of {', '.join(sorted(self._contexts))}" if self._contexts else "Run: headstream context create"
            raise NotFoundError(f"there is no context {name!r}", where=str(self._path), advice=advice) from None

    def create(self, name: str, context: Context) -> None:
        """Store a context; the first context becomes the current context. AlreadyExistsError if the name exists."""
        if name in self._contexts:
            raise AlreadyExistsError(f"the context {name!r} already exists", where=str(self._path), advice="Use `context update`")
        self._contexts[name] = replace(context)
        self.current = self.current or name
        self._write()

    def update(self, name: str, context: Context) -> None:
        """Replace a context; NotFoundError if the name is unknown."""
        self.get(name)
        self._contexts[name] = replace(context)
        self._write()

    def use(self, name: str) -> None:
        """Make a context current; NotFoundError if the name is unknown."""
        self.get(name)
        self.current = name
        self._write()

    def delete(self, name: str) -> None:
        """Delete a context; NotFoundError if the name is unknown."""
        self.get(name)
        del self._contexts[name]
        if self.current == name:
            self.current = None
        self._write()

    def _write(self) -> None:
        document: dict[str, Any] = {
            "current": self.current,
            "contexts": {name: asdict(context) for name, context in self.items()},
        }
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            new = self._path.with_name(f"{self._path.name}.{os.getpid()}")
            with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:  # noqa: PTH123
                json.dump(document, file, ensure_ascii=False, indent=2)
            new.replace(self._path)
        except OSError as error:
            raise StorageError(f"contexts cannot be written: {error.strerror}", where=str(self._path)) from None
