"""The command that runs campaigns: it lists them, and says how to repeat a history that failed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from headstream.log.partition.partition import PartitionWriter
from tests.campaigns.runner import CAMPAIGNS, main, run_history

ROOT = Path(__file__).parents[2]
SOAKED = {
    **dict.fromkeys(("partitions", "log", "removal", "leases", "retries", "deliveries"), range(1000, 2000)),
    "damage": range(1000, 3000),
    "vectors": range(1000, 1300),
    "iceberg": range(2000, 2060),
    "iceberg-kills": range(10, 22),
}
"""The seeds of each campaign that `make soak` runs."""


def test_list_names_each_module_of_histories() -> None:
    listed = CliRunner().invoke(main, ["--list"]).output.splitlines()
    paths = [path for path in Path(__file__).parent.glob("*.py") if not path.name.startswith("test_")]
    modules = sorted(path.name for path in paths if re.search(r"^class \w+History\b", path.read_text("utf-8"), re.MULTILINE))
    assert sorted({line.split()[-1] for line in listed}) == modules
    for campaign in CAMPAIGNS:
        assert callable(campaign.load().run)


def test_campaign_runs_each_seed_and_sums_what_happened() -> None:
    done = CliRunner().invoke(main, ["leases", "--seeds", "7-8", "--steps", "20"])
    assert done.exit_code == 0, done.output
    assert re.match(r"2 histories of leases, seeds 7 to 8: all passed\. .*[1-9]\d* leased", done.output), done.output


def test_campaign_stops_at_a_failed_history_and_the_command_it_prints_repeats_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PartitionWriter, "sync", lambda self: self.end.written)
    failed = CliRunner().invoke(main, ["partitions", "--seeds", "0-49", "--steps", "100"])
    assert failed.exit_code == 1
    command = re.search(r"Again: python -m tests\.campaigns (.*)", failed.output)
    assert command is not None, failed.output
    assert CliRunner().invoke(main, command[1].split()).output == failed.output


@pytest.mark.parametrize("arguments", [["log", "--seeds", "9-7"], ["log", "--seeds", "x"], ["deliveries", "--steps", "5"], []])
def test_command_refuses_options_that_select_nothing(arguments: list[str]) -> None:
    assert CliRunner().invoke(main, arguments).exit_code == 2


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", SOAKED)
def test_no_history_of_many_seeds_breaks_a_guarantee(name: str) -> None:
    kind = next(campaign for campaign in CAMPAIGNS if campaign.name == name).load()
    for seed in SOAKED[name]:
        run_history(kind, seed)


def test_wheel_has_no_module_of_the_campaigns() -> None:
    packaged = {path.stem for path in (ROOT / "src").rglob("*.py")}
    assert packaged.isdisjoint({"runner", *(path.stem for path in Path(__file__).parent.glob("*.py"))} - {"__main__"})
    assert [name for name in packaged if name.endswith("_histories")] == []
