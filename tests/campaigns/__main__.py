"""`python -m tests.campaigns`: see runner.py."""

from __future__ import annotations

from tests.campaigns.runner import main

main(prog_name="python -m tests.campaigns")
