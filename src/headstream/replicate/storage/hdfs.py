"""HDFS access over the native protocol, with hdfs-native, the library that deltalake also uses. Spark has a separate client."""

from __future__ import annotations

import hashlib
import math
import os
import uuid
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar, Final

from headstream.replicate.storage.storage_settings import StorageSettings
from headstream.replicate.storage.store_access import FIRST_WAIT_S, LONGEST_WAIT_S, StoreAccess, StoreClient

if TYPE_CHECKING:
    from hdfs_native import Client, FileStatus

_TAKEN_AWAY: Final = ".old"
"""Suffix of a file's name while it is replaced."""


class HdfsAccess(StoreAccess):
    """Access to a file system; `bucket` is the NameNode's `host:port` or a name from HADOOP_CONF_DIR."""

    __slots__ = ()
    service: ClassVar[str] = "HDFS"
    extra: ClassVar[str] = "hdfs"
    jars: ClassVar[str | None] = None
    file_system: ClassVar[str] = "org.apache.hadoop.hdfs.DistributedFileSystem"
    condition: ClassVar[str] = "rename without overwriting"
    advice: ClassVar[str] = (
        "Check host and port of the NameNode (dfs.namenode.rpc-address), and that this user can write to the directory. Set "
        "HADOOP_USER_NAME, and HADOOP_CONF_DIR for a cluster with several NameNodes"
    )

    def resolved(self, environment: Mapping[str, str] | None = None) -> StorageSettings:
        """Return the settings; HDFS has its own settings in the directory HADOOP_CONF_DIR."""
        return self.storage

    def delta_options(self) -> dict[str, str]:
        return {}

    def open_client(self, settings: StorageSettings, retry_us: int) -> StoreClient:
        from hdfs_native import Client

        attempts = max(1, math.ceil(math.log2(retry_us / 1e6 / FIRST_WAIT_S + 1)))
        return _HdfsClient(
            Client(
                f"hdfs://{self.bucket}",
                {
                    "dfs.client.failover.max.attempts": str(attempts),
                    "dfs.client.failover.sleep.base.millis": str(int(FIRST_WAIT_S * 1000)),
                    "dfs.client.failover.sleep.max.millis": str(int(LONGEST_WAIT_S * 1000)),
                },
            )
        )

    def hadoop_settings(self) -> dict[str, str]:
        """Return no settings, because Spark reads HADOOP_CONF_DIR."""
        return {}

    @property
    def hadoop_root(self) -> str:
        """Scheme and NameNode, as in Hadoop URIs."""
        return f"hdfs://{self.bucket}"

    def describe(self) -> str:
        """Return the NameNode and the user."""
        return f"NameNode {self.bucket}, user {os.environ.get('HADOOP_USER_NAME') or 'of this process'}"


class _HdfsClient:
    """HDFS files as objects. A file is written with a hidden name and renamed, which is atomic in the NameNode."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def read(self, key: str) -> tuple[bytes, str] | None:
        """Read a file, first restoring a file that an unfinished replace() has moved away."""
        try:
            content = self._content(key)
        except FileNotFoundError:
            left = self._taken_away(key)
            if left is None:
                return None
            self._move(left, key)
            return self.read(key)
        return content, _tag(content)

    def create(self, key: str, content: bytes) -> bool:
        return self._move(self._write_hidden(key, content), key)

    def replace(self, key: str, content: bytes, tag: str) -> bool:
        """Replace a file. HDFS has no conditional write, so the old file is first moved away, which only one process can do."""
        new, old = self._write_hidden(key, content), f"{_hidden(key)}{_TAKEN_AWAY}"
        try:
            self._client.rename(f"/{key}", f"/{old}")
            found = _tag(self._content(old))
        except FileNotFoundError:  # another replace() has moved it, or a read() has restored it
            self._client.delete(f"/{new}")
            return False
        if found != tag:
            self._client.delete(f"/{new}")
            self._move(old, key)
            return False
        is_replaced = self._move(new, key)
        self._client.delete(f"/{old}")
        return is_replaced

    def write(self, key: str, content: bytes) -> None:
        self._client.rename(f"/{self._write_hidden(key, content)}", f"/{key}", overwrite=True)

    def remove(self, key: str) -> None:
        self._client.delete(f"/{key}")

    def has_any(self, prefix: str) -> bool:
        return next(self._files(prefix), None) is not None

    def names(self, prefix: str, after: str) -> list[str]:
        root = f"/{prefix}/" if prefix else "/"
        found = (status.path.removeprefix(root) for status in self._files(prefix))
        return sorted(name for name in found if name > after)

    def folders(self, prefix: str) -> list[str]:
        try:
            found = [status.path for status in self._client.list_status(f"/{prefix}") if status.isdir]
        except FileNotFoundError:
            return []
        return [path.rpartition("/")[2] for path in found]

    def _content(self, key: str) -> bytes:
        return bytes(self._client.read(f"/{key}").read())

    def _taken_away(self, key: str) -> str | None:
        folder, slash, name = key.rpartition("/")
        try:
            found = [status.path.rpartition("/")[2] for status in self._client.list_status(f"/{folder}")]
        except FileNotFoundError:
            return None
        return next((f"{folder}{slash}{one}" for one in found if one.startswith(f".{name}.") and one.endswith(_TAKEN_AWAY)), None)

    def _files(self, prefix: str) -> Iterator[FileStatus]:
        try:
            for status in self._client.list_status(f"/{prefix}", recursive=True):
                if not status.isdir and not status.path.rpartition("/")[2].startswith("."):
                    yield status
        except FileNotFoundError:
            return

    def _write_hidden(self, key: str, content: bytes) -> str:
        from hdfs_native import WriteOptions

        hidden = _hidden(key)
        with self._client.create(f"/{hidden}", WriteOptions(overwrite=True, create_parent=True)) as file:
            if content:
                file.write(content)
        return hidden

    def _move(self, hidden: str, key: str) -> bool:
        """Rename a hidden file to its final name; if the name exists, delete the hidden file and return False."""
        try:
            self._client.rename(f"/{hidden}", f"/{key}")
        except FileExistsError:
            self._client.delete(f"/{hidden}")
            return False
        except FileNotFoundError:  # another process moved it
            return False
        return True


def _hidden(key: str) -> str:
    folder, slash, name = key.rpartition("/")
    return f"{folder}{slash}.{name}.{uuid.uuid4().hex}"


def _tag(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
