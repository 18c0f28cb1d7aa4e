"""Contexts: servers and logs by name, kept in a file of the user's that nobody else reads.

    {"current": "prod", "contexts": {"prod": {"url": "headstream://mq:8090?tls=true", "username": "ann", "password": null}}}

The file is $XDG_CONFIG_HOME/headstream/contexts.json (~/.config where that is not set), with mode 0600. A secret need not
be in it: it is taken from HEADSTREAM_PASSWORD or HEADSTREAM_TOKEN then, or asked for.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit

from headstream.client.remote.address import mend_slashes
from headstream.errors import AlreadyExistsError, InvalidInputError, NotFoundError, StorageError

__all__ = ["CONTEXT_VARIABLE", "Context", "Contexts", "contexts_path"]

CONTEXT_VARIABLE: Final = "HEADSTREAM_CONTEXT"
_SERVERS: Final = ("headstream", "http", "https", "quic")


@dataclass(frozen=True, slots=True)
class Context:
    """A server or a log that has a name.

    Args:
        url: Without credentials.
        username: Who logs in, or None.
        password: With which password; None is asked for.
        token: A personal access token in place of both, or None.
    """

    url: str
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)

    @classmethod
    def of_url(cls, url: str) -> Context:
        """Return what a URL says, its credentials apart.

        Raises:
            InvalidInputError: it is no URL.
        """
        try:
            parts = mend_slashes(urlsplit(url))
            username, password = unquote(parts.username or "") or None, unquote(parts.password or "") or None
        except ValueError:
            raise InvalidInputError("this is not a URL") from None
        if not parts.scheme:
            raise InvalidInputError("this is not a URL", advice="Write headstream://user@host:8090 or file:///directory")
        bare = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
        if password and not username:
            return cls(bare, token=password)
        return cls(bare, username, password)

    @property
    def is_server(self) -> bool:
        """Whether somebody has to log in."""
        return urlsplit(self.url).scheme in _SERVERS

    @property
    def has_secret(self) -> bool:
        """Whether a password or a token is kept."""
        return self.password is not None or self.token is not None

    def to_url(self) -> str:
        """Return the URL with what is known of credentials."""
        parts = urlsplit(self.url)
        if self.token is not None:
            credentials = f":{quote(self.token, safe='')}@"
        elif self.username is not None:
            secret = "" if self.password is None else f":{quote(self.password, safe='')}"
            credentials = f"{quote(self.username, safe='')}{secret}@"
        else:
            credentials = ""
        return parts._replace(netloc=credentials + parts.netloc).geturl()


def contexts_path() -> Path:
    """Return where contexts are kept."""
    home = os.environ.get("XDG_CONFIG_HOME")
    return (Path(home) if home else Path.home() / ".config") / "headstream" / "contexts.json"


class Contexts:
    """The contexts of a user, as the file has them now; what changes them writes it.

    Args:
        path: The file; it may be missing.

    Raises:
        StorageError: it cannot be read.
        InvalidInputError: something else is in it.
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
                "this is not a file of contexts", where=str(path), advice="Delete it, and make contexts anew"
            ) from None

    def items(self) -> list[tuple[str, Context]]:
        """Return all names with what they stand for, sorted."""
        return sorted(self._contexts.items())

    def get(self, name: str) -> Context:
        """Return a context; NotFoundError where there is none of that name."""
        try:
            return self._contexts[name]
        except KeyError:
            advice = f"There is {', '.join(sorted(self._contexts))}" if self._contexts else "Make one: headstream context create"
            raise NotFoundError(f"there is no context {name!r}", where=str(self._path), advice=advice) from None

    def create(self, name: str, context: Context) -> None:
        """Keep a context; the first one is used from now on.

        Raises:
            AlreadyExistsError: there is one of that name.
        """
        if name in self._contexts:
            raise AlreadyExistsError(f"there is a context {name!r} already", where=str(self._path), advice="Delete it first")
        self._contexts[name] = replace(context)
        self.current = self.current or name
        self._write()

    def update(self, name: str, context: Context) -> None:
        """Let a name stand for something else; NotFoundError where there is none of that name."""
        self.get(name)
        self._contexts[name] = replace(context)
        self._write()

    def use(self, name: str) -> None:
        """Have commands use a context where nothing else is said; NotFoundError where there is none of that name."""
        self.get(name)
        self.current = name
        self._write()

    def delete(self, name: str) -> None:
        """Forget a context; NotFoundError where there is none of that name."""
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
