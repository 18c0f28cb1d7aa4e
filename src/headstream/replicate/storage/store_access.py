"""Endpoints and credentials per kind of store, the same for deltalake, Headstream's objects and Spark.

S3Access        s3.py        s3://bucket/key
AzureAccess     azure.py     abfss://container@account.dfs.core.windows.net/key
GoogleAccess    google.py    gs://bucket/key
HdfsAccess      hdfs.py      hdfs://host:port/key
"""

from __future__ import annotations

import math
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, ClassVar, Final, Literal, NamedTuple, Protocol, TypeAlias

from headstream.replicate.storage.storage_settings import StorageSettings

FIRST_WAIT_S: Final = 0.1
LONGEST_WAIT_S: Final = 5.0
"""Maximum delay between retries, seconds, and thus the longest time until a recovered store is noticed."""
_MOST_RETRIES: Final = 1000
"""Maximum number of retries, high enough that retry_us is the limit."""
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")
_ARROW: Final = re.compile(r"\s*(?:↳|->|\n)\s*")
_REASON: Final = re.compile(r'message: "([^"]+)"')
_SHORTEST_SECRET: Final = 4
"""Minimum length of a redacted secret. Shorter strings occur in ordinary words, and no store issues such secrets."""


class StoreClient(Protocol):
    """The objects of one bucket, container or file system; keys have no leading or trailing slash.

    Methods raise the errors of the client, which StoreFiles converts.
    """

    def read(self, key: str) -> tuple[bytes, str] | None:
        """Return an object's bytes and the tag of its version; None if it does not exist."""

    def create(self, key: str, content: bytes) -> bool:
        """Create an object atomically; return False if it exists."""

    def replace(self, key: str, content: bytes, tag: str) -> bool:
        """Replace an object if it still has the given tag; return whether it was replaced."""

    def write(self, key: str, content: bytes) -> None:
        """Create or overwrite an object atomically."""

    def remove(self, key: str) -> None:
        """Delete an object if it exists."""

    def has_any(self, prefix: str) -> bool:
        """Return whether an object exists below a key."""

    def names(self, prefix: str, after: str) -> list[str]:
        """Return the sorted names of objects below a key that follow a name; names of deeper levels contain slashes."""

    def folders(self, prefix: str) -> list[str]:
        """Return the names of the next level below a key that have objects below them."""


@dataclass(frozen=True, slots=True)
class StoreAccess(ABC):
    """Access to one bucket, container or file system."""

    bucket: str
    storage: StorageSettings

    service: ClassVar[str]
    """Name of the store for errors, for example `S3`."""
    extra: ClassVar[str]
    """The package extra that contains the client."""
    jars: ClassVar[str | None]
    """The set of jars that Spark needs; None if Spark contains the jars."""
    file_system: ClassVar[str]
    """Hadoop's class for the store."""
    advice: ClassVar[str]
    """Advice for errors if the store cannot be reached."""
    condition: ClassVar[str]
    """The request condition with which a creation fails if the object exists."""

    @abstractmethod
    def resolved(self, environment: Mapping[str, str] | None = None) -> StorageSettings:
        """Return the settings, completed from the environment, by default this process's environment."""

    @abstractmethod
    def delta_options(self) -> dict[str, str]:
        """Return deltalake's `storage_options`."""

    @abstractmethod
    def open_client(self, settings: StorageSettings, retry_us: int) -> StoreClient:
        """Return a client.

        Args:
            retry_us: Time for which a request is retried, microseconds.

        Raises:
            ImportError: the client's package is not installed.
        """

    @abstractmethod
    def hadoop_settings(self) -> dict[str, str]:
        """Return the settings of Hadoop's file system for Spark; as a Spark setting, a name has the prefix `spark.hadoop.`.

        The settings contain credentials. Set them in a running driver's Hadoop configuration, so they appear on no command line.
        """

    def hadoop_identity(self) -> dict[str, str]:
        """Return the settings with which Hadoop's file system uses the machine's identity; empty if this is the default."""
        return {}

    @property
    def hadoop_logins(self) -> tuple[str, ...]:
        """Hadoop's settings for the login of one session, instead of the machine's identity."""
        return ()

    @abstractmethod
    def describe(self) -> str:
        """Return the endpoint and the source of the credentials, without the credentials."""

    @property
    def hadoop_root(self) -> str:
        """Scheme and bucket, as in Hadoop URIs."""
        raise NotImplementedError

    def redact(self, text: str) -> str:
        """Return a client's error message in one line, without credentials."""
        found, _, debugging = text.partition("\n\nDebug source:")
        found = found.partition("\n\tat ")[0]  # without the stack trace of a server in Java
        found = _ARROW.sub(": ", _COLOUR.sub("", found)).strip(": ")
        reason = _REASON.search(debugging)  # the operating system's reason, which occurs only here
        if reason is not None and reason[1] not in found:
            found = f"{found}: {reason[1]}"
        for secret in self.resolved().secrets:
            if len(secret) >= _SHORTEST_SECRET:
                found = found.replace(secret, "***")
        return found


class StoreOption(NamedTuple):
    """The environment variables for a setting of [storage] (the first that is set is used), and the setting's names in deltalake,
    obstore and Hadoop's file system. A name is empty if the client lacks the setting or requires another form.
    """

    variables: tuple[str, ...]
    delta: str = ""
    client: str = ""
    hadoop: str = ""


StoreOptions: TypeAlias = Mapping[str, StoreOption]
"""Setting -> its option."""


def named_options(
    settings: StorageSettings, options: StoreOptions, whose: Literal["delta", "client", "hadoop"]
) -> dict[str, str]:
    """Return the settings that have a value, under a client's names."""
    found = ((getattr(option, whose), getattr(settings, name)) for name, option in options.items())
    return {name: value for name, value in found if name and value is not None}


def complete(storage: StorageSettings, options: StoreOptions, environment: Mapping[str, str] | None) -> StorageSettings:
    """Return settings, completed from the environment, by default this process's environment."""
    known = os.environ if environment is None else environment
    found: dict[str, Any] = {}
    for name, option in options.items():
        value = next((known[variable] for variable in option.variables if known.get(variable)), None)
        if value is not None and getattr(storage, name) is None:
            found[name] = value
    return replace(storage, **found) if found else storage


def delta_retries(retry_us: int) -> dict[str, str]:
    """Return deltalake's options for retrying during the given time, microseconds."""
    return {
        "max_retries": str(_MOST_RETRIES),
        "retry_timeout": f"{math.ceil(retry_us / 1000)}ms",
        "backoff_config.init_backoff": f"{int(FIRST_WAIT_S * 1000)}ms",
        "backoff_config.max_backoff": f"{int(LONGEST_WAIT_S * 1000)}ms",
    }


def object_retries(retry_us: int) -> dict[str, Any]:
    """Return obstore's `retry_config` for retrying during the given time, microseconds."""
    backoff = {"init_backoff": timedelta(seconds=FIRST_WAIT_S), "max_backoff": timedelta(seconds=LONGEST_WAIT_S), "base": 2}
    return {"max_retries": _MOST_RETRIES, "retry_timeout": timedelta(microseconds=retry_us), "backoff": backoff}
