"""`headstream demo --log`: what it tells is what is in its log."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

import headstream as hs
from headstream.cli.demo import demo


def test_log_demo_tells_what_is_in_the_log_that_it_leaves(tmp_path: Path) -> None:
    ran = CliRunner(env={"COLUMNS": "80"}).invoke(demo, ["--log", "--directory", str(tmp_path / "demo")], catch_exceptions=False)
    assert ran.exit_code == 0
    with hs.connect((tmp_path / "demo/log").as_uri()) as log:
        (letter,) = log.poll("shop/orders.dead")
        assert letter.headers["order"] == hs.uint32(3)
        assert letter.headers["hs.attempts"] == 3
        assert log.group("shop/orders", "billing").lag == 0
        assert len(log.poll("shop/orders", states=None)) == 6
        (poisoned,) = log.poll("shop/orders", states="poisoned")
        assert poisoned.offset == letter.headers["hs.origin.offset"]
        place = letter.headers["hs.origin.offset"]
    for told in (
        "selects orders by their headers: 1, 4, 5",
        "order 3, attempt 3: no price for 'sppon'",
        "The order was tried 3 times",
        "0 messages are left",
        f"hs.origin.offset = {place!r}",
        "receive 5 of 6 orders",
    ):
        assert told in ran.output
    again = CliRunner().invoke(demo, ["--log", "--directory", str(tmp_path / "demo")])
    assert again.exit_code == 0  # its own directory is recreated
