"""Personal access tokens of the session's user."""

from __future__ import annotations

from typing import Any, Final

from headstream.broker.accounts.sessions import Session
from headstream.broker.commands.dispatch import CommandRow, Dispatcher
from headstream.core.wire.commands.tokens import CreateToken, DeleteToken, ListTokens, RawToken, Token
from headstream.core.wire.commands.topics import NEVER, SERVER_DEFAULT
from headstream.core.wire.records import Command


def list_tokens(server: Dispatcher, session: Session, command: ListTokens) -> tuple[Token, ...]:
    """Return the caller's tokens, by name."""
    return tuple(Token(token.name, token.expires_us or 0) for token in server.tokens.list(session.user_id))


def create_token(server: Dispatcher, session: Session, command: CreateToken) -> RawToken:
    """Create a token (52, 51); by default it never expires."""
    lifetime_us = None if command.expiry in (SERVER_DEFAULT, NEVER) else command.expiry
    return RawToken(server.tokens.create(session.user_id, command.name, lifetime_us))


def delete_token(server: Dispatcher, session: Session, command: DeleteToken) -> None:
    """Delete a token (20)."""
    server.tokens.delete(session.user_id, command.name)


ROWS: Final[dict[type[Command[Any]], CommandRow]] = {
    ListTokens: CommandRow(list_tokens, is_slow=True),
    CreateToken: CommandRow(create_token, is_slow=True),
    DeleteToken: CommandRow(delete_token, is_slow=True),
}
