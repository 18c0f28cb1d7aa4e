"""Unit tests of headstream.client.producer.sending: SendingOptions."""

from __future__ import annotations

import pytest

from headstream.client.producer.sending import SendingOptions
from headstream.errors import InvalidOptionError


@pytest.mark.parametrize(
    "options",
    [{"linger_ms": -1}, {"linger_ms": 3_600_001}, {"batch_bytes": 0}, {"batch_bytes": (64 << 20) + 1}, {"batch_count": 0},
     {"buffer_bytes": 0}],
)  # fmt: skip
def test_options_refuse_what_is_out_of_range(options: dict[str, int]) -> None:
    with pytest.raises(InvalidOptionError, match=f"{next(iter(options))} must be .*, not {next(iter(options.values()))}"):
        SendingOptions(**options)
