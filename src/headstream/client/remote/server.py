"""Server: what only a server has, beside streams and messages: users, tokens, clients, statistics."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Final

from headstream.client.remote.caller import Caller
from headstream.errors import NotFoundError
from headstream.wire.commands.permissions import Permissions
from headstream.wire.commands.sessions import Ping
from headstream.wire.commands.system import (
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
from headstream.wire.commands.tokens import CreateToken, DeleteToken, ListTokens, Token
from headstream.wire.commands.topics import NEVER
from headstream.wire.commands.users import (
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

__all__ = ["Server"]

_EVERYTHING: Final = (SnapshotType.ALL,)


class Server:
    """What can be asked of a server as a whole; any thread. Client.server is one.

    Args:
        caller: Asks the server.
    """

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    @property
    def place(self) -> str:
        """Where it is, as in `headstream://localhost:8090`."""
        return self._caller.address.place

    # -- the server -------------------------------------------------------------------------------------------

    def ping(self) -> float:
        """Ask whether the server is alive, and return how long its answer took, milliseconds."""
        begin = time.perf_counter()
        self._caller.call(Ping())
        return (time.perf_counter() - begin) * 1000

    def stats(self) -> Stats:
        """Return what the server says of itself: load, memory, counts, versions."""
        return self._caller.call(GetStats())

    def snapshot(self, types: Iterable[SnapshotType] = _EVERYTHING) -> bytes:
        """Return an archive (ZIP) that tells about the server, for who looks into a problem.

        Args:
            types: What it holds.
        """
        return self._caller.call(Snapshot(SnapshotCompression.DEFLATED, tuple(types)))

    # -- clients ----------------------------------------------------------------------------------------------

    def me(self) -> ClientDetails:
        """Return the connection that asks; over HTTP, which has none, InvalidInputError."""
        return self._caller.call(GetMe())

    def clients(self) -> list[Client]:
        """Return all connections to the server; one program may have several."""
        return [*self._caller.call(ListClients())]

    def client(self, client_id: int) -> ClientDetails:
        """Return one connection; NotFoundError where there is none of that number."""
        found = self._caller.call(GetClient(client_id))
        if found is None:
            raise NotFoundError(f"there is no client {client_id}", where=self.place, advice="Look with clients()")
        return found

    # -- users ------------------------------------------------------------------------------------------------

    def users(self) -> list[User]:
        """Return all users."""
        return [*self._caller.call(ListUsers())]

    def user(self, user: int | str) -> UserDetails:
        """Return one user and what it may do; NotFoundError where there is none.

        Args:
            user: By number or by name.
        """
        found = self._caller.call(GetUser(user))
        if found is None:
            raise NotFoundError(f"there is no user {user!r}", where=self.place, advice="Look with users()")
        return found

    def create_user(
        self, username: str, password: str, *, permissions: Permissions | None = None, is_active: bool = True
    ) -> UserDetails:
        """Make a user.

        Args:
            username: 3 to 50 bytes.
            password: 3 to 100 bytes.
            permissions: What it may do; None is nothing but what everybody may.
            is_active: Whether it may log in.

        Raises:
            AlreadyExistsError: there is one of that name.
        """
        command = CreateUser(username, password, _status(is_active), permissions)
        command.validate()
        return self._caller.call(command)

    def update_user(self, user: int | str, *, username: str | None = None, is_active: bool | None = None) -> None:
        """Give a user another name, or say whether it may log in; what is None stays."""
        command = UpdateUser(user, username, None if is_active is None else _status(is_active))
        command.validate()
        self._caller.call(command)

    def change_permissions(self, user: int | str, permissions: Permissions | None) -> None:
        """Say what a user may do; None takes everything."""
        self._caller.call(UpdatePermissions(user, permissions))

    def change_password(self, user: int | str, current_password: str, new_password: str) -> None:
        """Give a user another password."""
        command = ChangePassword(user, current_password, new_password)
        command.validate()
        self._caller.call(command)

    def delete_user(self, user: int | str) -> None:
        """Delete a user, whose tokens go too."""
        self._caller.call(DeleteUser(user))

    # -- personal access tokens -------------------------------------------------------------------------------

    def tokens(self) -> list[Token]:
        """Return the names of one's own tokens, and when they expire."""
        return [*self._caller.call(ListTokens())]

    def create_token(self, name: str, *, expires_in_us: int | None = None) -> str:
        """Make a token to log in with in place of a password, and return it: it is shown this once.

        Args:
            name: 3 to 30 bytes.
            expires_in_us: How long it is good, microseconds, 1 or more; None is for ever.
        """
        command = CreateToken(name, NEVER if expires_in_us is None else expires_in_us)
        command.validate()
        return self._caller.call(command).token

    def delete_token(self, name: str) -> None:
        """Delete one of one's own tokens."""
        self._caller.call(DeleteToken(name))


def _status(is_active: bool) -> UserStatus:
    return UserStatus.ACTIVE if is_active else UserStatus.INACTIVE
