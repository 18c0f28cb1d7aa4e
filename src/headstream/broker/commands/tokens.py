"""Personal access tokens: always those of who asks."""

from __future__ import annotations

from typing import Any, Final

from headstream.broker.commands.dispatch import Dispatcher, Handler
from headstream.broker.sessions import Session
from headstream.wire.commands.tokens import CreateToken, DeleteToken, ListTokens, RawToken, Token
from headstream.wire.commands.topics import NEVER, SERVER_DEFAULT
from headstream.wire.records import Command

__all__ = ["HANDLERS"]


def list_tokens(server: Dispatcher, session: Session, command: ListTokens) -> tuple[Token, ...]:
    """Return the caller's tokens, by name."""
    return tuple(Token(token.name, token.expires_us or 0) for token in server.tokens.list(session.user_id))


def create_token(server: Dispatcher, session: Session, command: CreateToken) -> RawToken:
    """Make a token (52, 51); the server's default is one that never expires."""
    lifetime_us = None if command.expiry in (SERVER_DEFAULT, NEVER) else command.expiry
    return RawToken(server.tokens.create(session.user_id, command.name, lifetime_us))


def delete_token(server: Dispatcher, session: Session, command: DeleteToken) -> None:
    """Delete a token (20)."""
    server.tokens.delete(session.user_id, command.name)


HANDLERS: Final[dict[type[Command[Any]], Handler]] = {
    ListTokens: list_tokens,
    CreateToken: create_token,
    DeleteToken: delete_token,
}
