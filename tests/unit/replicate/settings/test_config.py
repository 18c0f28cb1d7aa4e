"""Unit tests of headstream.replicate.settings.config."""

from __future__ import annotations

from pathlib import Path

from headstream.replicate.settings.config_file import load_config
from tests.unit.replicate.settings.test_config_file import EXAMPLE, LEAST, write


def test_example_has_the_defaults_that_it_says(tmp_path: Path) -> None:
    commented = {"once", "take_over", "max_messages_per_batch", "schema_wait", "on_missing_schema", "max_parked_count",
                 "max_parked_bytes", "max_parked_age", "atomic", "transaction_wait", "on_incomplete_transaction",
                 "max_dead_rate", "dead_rate_messages", "vacuum_kept", "load_gap", "trigger_every",
                 "accept_recreated", "accept_loss"}  # fmt: skip
    lines = [line[2:] for line in EXAMPLE.read_text().splitlines() if line.startswith("# ")]
    said = [line for line in lines if line.partition(" =")[0] in commented]
    assert len(said) == len(commented)
    assert load_config(write(tmp_path, LEAST + "\n".join(said))) == load_config(write(tmp_path, LEAST))
