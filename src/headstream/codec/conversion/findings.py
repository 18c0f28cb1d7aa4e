"""Findings: what becomes of a part of a message that a dialect does not spell as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from headstream.errors import InvalidOptionError, LimitError

__all__ = ["DROPPED", "POLICIES", "Finding", "OnLoss", "Policy", "choose", "policies_of"]

Policy: TypeAlias = Literal["error", "drop", "widen", "text", "bare"]
OnLoss: TypeAlias = Policy | Sequence[Policy]

POLICIES: Final[Mapping[str, str]] = {
    "error": "a loss is refused",
    "drop": "what cannot be spelled is left out",
    "widen": "a value becomes one of a wider kind: a char a string, a value of an unknown kind raw bytes",
    "text": "a value becomes its text",
    "bare": "id and microseconds are left out where they would travel as headers (kip82, kafka)",
}


class _Dropped:
    """What a remedy that leaves a part out gives."""

    def __repr__(self) -> str:
        return "DROPPED"


DROPPED: Final = _Dropped()


@dataclass(frozen=True, slots=True)
class Finding:
    """One part of a message that is not spelled as it is.

    Args:
        part: The part: `header 'k'`, `state`, `payload`, ...
        reason: Why, as a sentence without a full stop.
        is_loss: Whether something is lost, and a policy needed; else the value is kept and only its kind becomes another.
        remedies: Policy -> what the part becomes by it (DROPPED: it is left out).
    """

    part: str
    reason: str
    is_loss: bool = True
    remedies: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        if not self.is_loss:
            return f"{self.part}: {self.reason}"
        ways = ", ".join(f"{policy}: {_tell(remedy)}" for policy, remedy in self.remedies.items())
        return f"{self.part}: {self.reason} ({ways or 'no policy accepts it'})"


def _tell(remedy: Any) -> str:
    return "left out" if remedy is DROPPED else repr(remedy)


def policies_of(on_loss: OnLoss) -> tuple[str, ...]:
    """Return the policies to try, in order.

    Raises:
        InvalidOptionError: there is no such policy.
    """
    policies = (on_loss,) if isinstance(on_loss, str) else tuple(on_loss)
    for policy in policies:
        if policy not in POLICIES:
            raise InvalidOptionError(f"{policy!r} is not a policy", where="on_loss", advice=f"Use {', '.join(POLICIES)}")
    return policies


def choose(finding: Finding, policies: tuple[str, ...], dialect: str) -> Any:
    """Return what the part becomes by the first policy that has a remedy.

    Raises:
        LimitError: none has.
    """
    for policy in policies:
        if policy in finding.remedies:
            return finding.remedies[policy]
    ways = [f"on_loss={policy!r} ({_tell(remedy)})" for policy, remedy in finding.remedies.items()]
    advice = f"Accept it with {' or '.join(ways)}" if ways else "No policy accepts that; choose another dialect"
    raise LimitError(finding.reason, where=f"{finding.part}, converting to {dialect}", advice=advice)
