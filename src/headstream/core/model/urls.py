"""Splits URLs, also of Kafka clusters: newer Pythons reject the brackets of `kafka://one:9092,[::1]:9093`."""

from __future__ import annotations

from typing import Final
from urllib.parse import SplitResult, urlsplit

_HIDDEN: Final = {ord("["): "\ue000", ord("]"): "\ue001"}
_SHOWN: Final = {ord(hidden): chr(bracket) for bracket, hidden in _HIDDEN.items()}


def split_url(text: str) -> SplitResult:
    """Return the parts of a URL; one of Kafka's can have several hosts, of which any can be an IPv6 address in brackets."""
    if text[:8].lower() != "kafka://":
        return urlsplit(text)
    return SplitResult(*(part.translate(_SHOWN) for part in urlsplit(text.translate(_HIDDEN))))
