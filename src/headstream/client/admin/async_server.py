"""AsyncServer: the API of Server for asyncio."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from headstream.client.worker import Worker
from headstream.core.wire.commands.permissions import Permissions
from headstream.core.wire.commands.system import Client, ClientDetails, SnapshotType, Stats
from headstream.core.wire.commands.tokens import Token
from headstream.core.wire.commands.users import User, UserDetails

if TYPE_CHECKING:
    from headstream.client.transports.remote.server import Server


class AsyncServer:
    """Administration of a server, for asyncio; see AsyncClient.server.

    Args:
        server: The wrapped server API.
        worker: Thread that runs the calls.
    """

    def __init__(self, server: Server, worker: Worker) -> None:
        self._server = server
        self._worker = worker

    @property
    def place(self) -> str:
        """The server's address, for example `headstream://localhost:8090`."""
        return self._server.place

    async def ping(self) -> float:
        """Return the round-trip time, milliseconds."""
        return await self._worker.run(self._server.ping)

    async def stats(self) -> Stats:
        """Return the server's statistics."""
        return await self._worker.run(self._server.stats)

    async def snapshot(self, types: Iterable[SnapshotType] = (SnapshotType.ALL,)) -> bytes:
        """Return a diagnostic archive (ZIP) of the server; see Server.snapshot()."""
        return await self._worker.run(self._server.snapshot, types)

    async def me(self) -> ClientDetails:
        """Return the details of this connection."""
        return await self._worker.run(self._server.me)

    async def clients(self) -> list[Client]:
        """Return all connections to the server."""
        return await self._worker.run(self._server.clients)

    async def client(self, client_id: int) -> ClientDetails:
        """Return one connection."""
        return await self._worker.run(self._server.client, client_id)

    async def users(self) -> list[User]:
        """Return all users."""
        return await self._worker.run(self._server.users)

    async def user(self, user: int | str) -> UserDetails:
        """Return one user, with permissions."""
        return await self._worker.run(self._server.user, user)

    async def create_user(
        self, username: str, password: str, *, permissions: Permissions | None = None, is_active: bool = True
    ) -> UserDetails:
        """Create a user; see Server.create_user()."""
        return await self._worker.run(self._server.create_user, username, password, permissions=permissions, is_active=is_active)

    async def update_user(self, user: int | str, *, username: str | None = None, is_active: bool | None = None) -> None:
        """Rename, activate or deactivate a user."""
        await self._worker.run(self._server.update_user, user, username=username, is_active=is_active)

    async def change_permissions(self, user: int | str, permissions: Permissions | None) -> None:
        """Set the permissions of a user; None revokes all."""
        await self._worker.run(self._server.change_permissions, user, permissions)

    async def change_password(self, user: int | str, current_password: str, new_password: str) -> None:
        """Change a user's password."""
        await self._worker.run(self._server.change_password, user, current_password, new_password)

    async def delete_user(self, user: int | str) -> None:
        """Delete a user and the user's tokens."""
        await self._worker.run(self._server.delete_user, user)

    async def tokens(self) -> list[Token]:
        """Return the names of the logged-in user's tokens."""
        return await self._worker.run(self._server.tokens)

    async def create_token(self, name: str, *, expires_in_us: int | None = None) -> str:
        """Create a token; see Server.create_token()."""
        return await self._worker.run(self._server.create_token, name, expires_in_us=expires_in_us)

    async def delete_token(self, name: str) -> None:
        """Delete a token of the logged-in user."""
        await self._worker.run(self._server.delete_token, name)
