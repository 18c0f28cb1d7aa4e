"""Server: administers the users, tokens and clients of a server, and reads statistics."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Final

from headstream.client.transports.remote.caller import Caller
from headstream.core.wire.commands.permissions import Permissions
from headstream.core.wire.commands.sessions import Ping
from headstream.core.wire.commands.system import (
    Client,
    ClientDetails,
    GetClient,
    GetMe,
    GetStats,
    ListClients,
    Snapshot,
    SnapshotCompression,
    SnapshotType,
    Stats,
)
from headstream.core.wire.commands.tokens import CreateToken, DeleteToken, ListTokens, Token
from headstream.core.wire.commands.topics import NEVER
from headstream.core.wire.commands.users import (
    ChangePassword,
    CreateUser,
    DeleteUser,
    GetUser,
    ListUsers,
    UpdatePermissions,
    UpdateUser,
    User,
    UserDetails,
    UserStatus,
)
from headstream.errors import NotFoundError

_EVERYTHING: Final = (SnapshotType.ALL,)


class Server:
    """Administration of a server; thread-safe. Returned by Client.server.

    Args:
        caller: Sends the commands.
    """

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    @property
    def place(self) -> str:
        """The server's address, for example `headstream://localhost:8090`."""
        return self._caller.address.place

    @property
    def caller(self) -> Caller:
        """The sender of protocol commands, for tools. This interface can change in any version."""
        return self._caller

    # -- the server -------------------------------------------------------------------------------------------

    def ping(self) -> float:
        """Send a ping; return the round-trip time, milliseconds."""
        begin = time.perf_counter()
        self._caller.call(Ping())
        return (time.perf_counter() - begin) * 1000

    def stats(self) -> Stats:
        """Return the server's statistics: load, memory, counts, versions."""
        return self._caller.call(GetStats())

    def snapshot(self, types: Iterable[SnapshotType] = _EVERYTHING) -> bytes:
        """Return a diagnostic archive (ZIP) of the server."""
        return self._caller.call(Snapshot(SnapshotCompression.DEFLATED, tuple(types)))

    # -- clients ----------------------------------------------------------------------------------------------

    def me(self) -> ClientDetails:
        """Return details of the current connection; InvalidInputError over HTTP."""
        return self._caller.call(GetMe())

    def clients(self) -> list[Client]:
        """Return all connections to the server; one program can have several connections."""
        return [*self._caller.call(ListClients())]

    def client(self, client_id: int) -> ClientDetails:
        """Return one connection; NotFoundError if it does not exist."""
        found = self._caller.call(GetClient(client_id))
        if found is None:
            raise NotFoundError(
                f"there is no client {client_id}",
                where=self.place,
                advice="List the clients with log.server.clients() or `headstream client list`",
            )
        return found

    # -- users ------------------------------------------------------------------------------------------------

    def users(self) -> list[User]:
        """Return all users."""
        return [*self._caller.call(ListUsers())]

    def user(self, user: int | str) -> UserDetails:
        """Return one user and the user's permissions; NotFoundError if the user does not exist.

        Args:
            user: Id or name.
        """
        found = self._caller.call(GetUser(user))
        if found is None:
            raise NotFoundError(
                f"there is no user {user!r}",
                where=self.place,
                advice="List the users with log.server.users() or `headstream user list`",
            )
        return found

    def create_user(
        self, username: str, password: str, *, permissions: Permissions | None = None, is_active: bool = True
    ) -> UserDetails:
        """Create a user.

        Args:
            username: 3 to 50 bytes.
            password: 3 to 100 bytes.
            permissions: The user's permissions; None grants only the rights that all users have.
            is_active: Whether the user is allowed to log in.

        Raises:
            AlreadyExistsError: the name is taken.
        """
        command = CreateUser(username, password, _status(is_active), permissions)
        command.validate()
        return self._caller.call(command)

    def update_user(self, user: int | str, *, username: str | None = None, is_active: bool | None = None) -> None:
        """Change a user's name or status; None leaves a value unchanged."""
        command = UpdateUser(user, username, None if is_active is None else _status(is_active))
        command.validate()
        self._caller.call(command)

    def change_permissions(self, user: int | str, permissions: Permissions | None) -> None:
        """Set a user's permissions; None revokes all permissions."""
        self._caller.call(UpdatePermissions(user, permissions))

    def change_password(self, user: int | str, current_password: str, new_password: str) -> None:
        """Change a user's password."""
        command = ChangePassword(user, current_password, new_password)
        command.validate()
        self._caller.call(command)

    def delete_user(self, user: int | str) -> None:
        """Delete a user and the user's tokens."""
        self._caller.call(DeleteUser(user))

    # -- personal access tokens -------------------------------------------------------------------------------

    def tokens(self) -> list[Token]:
        """Return names and expiry times of the current user's tokens."""
        return [*self._caller.call(ListTokens())]

    def create_token(self, name: str, *, expires_in_us: int | None = None) -> str:
        """Create and return an access token for logins without a password. The token cannot be retrieved later.

        Args:
            name: 3 to 30 bytes.
            expires_in_us: Lifetime, microseconds, 1 or more; None: unlimited.
        """
        command = CreateToken(name, NEVER if expires_in_us is None else expires_in_us)
        command.validate()
        return self._caller.call(command).token

    def delete_token(self, name: str) -> None:
        """Delete a token of the current user."""
        self._caller.call(DeleteToken(name))


def _status(is_active: bool) -> UserStatus:
    return UserStatus.ACTIVE if is_active else UserStatus.INACTIVE
