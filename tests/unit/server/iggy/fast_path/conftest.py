"""What tests of the fast path without sockets begin with."""

from __future__ import annotations

from tests.unit.broker.conftest import server

__all__ = ["server"]
