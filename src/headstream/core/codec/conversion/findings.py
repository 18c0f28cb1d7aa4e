"""Findings: changes to the parts of a message that a dialect cannot represent unchanged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from headstream.errors import InvalidOptionError, LimitError

Policy: TypeAlias = Literal["error", "drop", "widen", "text", "bare"]
OnLoss: TypeAlias = Policy | Sequence[Policy]

POLICIES: Final[Mapping[str, str]] = {
    "error": "a loss is an error",
    "drop": "a loss is omitted",
    "widen": "a value is converted to a wider kind: char to string, an unknown kind to raw",
    "text": "a value is converted to a string",
    "bare": "id and microseconds are omitted in dialects that store them as headers (kip82, kafka)",
}


class _Dropped:
    """The result of a remedy that omits a part."""

    def __repr__(self) -> str:
        return "DROPPED"


DROPPED: Final = _Dropped()


@dataclass(frozen=True, slots=True)
class Finding:
    """One part of a message that changes in a conversion.

    Args:
        part: The part: `header 'k'`, `state`, `payload`, ...
        is_loss: Whether a value is lost, which a policy must accept; otherwise only the value's kind changes.
        remedies: Policy -> the replacement for the part; DROPPED if the part is omitted.
    """

    part: str
    reason: str
    is_loss: bool = True
    remedies: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        if not self.is_loss:
            return f"{self.part}: {self.reason}"
        options = ", ".join(f"{policy}: {_describe(remedy)}" for policy, remedy in self.remedies.items())
        return f"{self.part}: {self.reason} ({options or 'no policy accepts it'})"


def _describe(remedy: Any) -> str:
    return "omitted" if remedy is DROPPED else repr(remedy)


def policies_of(on_loss: OnLoss) -> tuple[str, ...]:
    """Return the policies to try, in order; InvalidOptionError for an unknown policy."""
    policies = (on_loss,) if isinstance(on_loss, str) else tuple(on_loss)
    for policy in policies:
        if policy not in POLICIES:
            raise InvalidOptionError(
                f"{policy!r} is not a valid policy", where="on_loss", advice=f"Use one of {', '.join(POLICIES)}"
            )
    return policies


def choose(finding: Finding, policies: tuple[str, ...], dialect: str) -> Any:
    """Return the replacement for a part from the first policy that has a remedy; LimitError if no policy has a remedy."""
    for policy in policies:
        if policy in finding.remedies:
            return finding.remedies[policy]
    options = [f"on_loss={policy!r} ({_describe(remedy)})" for policy, remedy in finding.remedies.items()]
    advice = f"Accept the loss with {' or '.join(options)}" if options else "No policy accepts the loss; choose another dialect"
    raise LimitError(finding.reason, where=f"{finding.part}, converting to {dialect}", advice=advice)
