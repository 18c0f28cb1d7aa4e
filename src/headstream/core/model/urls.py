"""Splits URLs, including `kafka://one:9092,[::1]:9093`, whose brackets newer Python versions reject."""

from __future__ import annotations

from typing import Final
from urllib.parse import SplitResult, urlsplit

_HIDDEN: Final = {ord("["): "\ue000", ord("]"): "\ue001"}
_SHOWN: Final = {ord(hidden): chr(bracket) for bracket, hidden in _HIDDEN.items()}


def split_url(text: str) -> SplitResult:
    """Return the parts of a URL. A Kafka URL can have several hosts, and any host can be an IPv6 address in brackets."""
    if text[:8].lower() != "kafka://":
        return urlsplit(text)
    return SplitResult(*(part.translate(_SHOWN) for part in urlsplit(text.translate(_HIDDEN))))
