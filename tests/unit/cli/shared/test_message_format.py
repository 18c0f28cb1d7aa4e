"""Unit tests of headstream.cli.shared.message_format."""

from __future__ import annotations

import pytest

from headstream.cli.shared.message_format import parse_format
from headstream.errors import InvalidInputError


@pytest.mark.parametrize("template", ["%x", "abc \\q", "%"])
def test_a_format_that_means_nothing_is_refused_with_its_place(template: str) -> None:
    with pytest.raises(InvalidInputError, match="at character"):
        parse_format(template)
