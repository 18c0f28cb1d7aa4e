"""What every test may rely on, wherever the suite is started from."""

from __future__ import annotations

import gc
import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support.lean_spark import QUICK, driver_options
from tests.support.suite_times import SuiteTimes
from tests.support.tiers import FIRST_TIER, leave_for_other_nights, mark_repeated_seeds, mark_repeated_values, take_fewer_examples

# A shell starts its background jobs, a suite among them, with Ctrl-C ignored, which programs that tests start and
# interrupt would inherit. A handler, unlike being ignored, is not inherited.
signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes says more of the machine than of what is tested.
settings.register_profile("headstream", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("headstream")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--night", type=int, help="of the campaigns, only those of this night: see tests/support/tiers.py")


def pytest_configure(config: pytest.Config) -> None:
    gc.set_threshold(50_000)  # Python's 700 costs a twentieth of the processor time; references free nearly everything
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", QUICK)
    os.environ.setdefault("SPARK_SUBMIT_OPTS", driver_options(lean=config.option.markexpr == FIRST_TIER))
    path = os.environ.pop("HEADSTREAM_SUITE_TIMES", None)  # a test may run others: their times are part of its own
    if path is not None:
        config.pluginmanager.register(SuiteTimes(Path(path)), "suite-times")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    mark_repeated_seeds(items)  # before pytest selects by markers
    mark_repeated_values(items)
    for item in items:
        if item.get_closest_marker("soak") is not None:
            item.add_marker(pytest.mark.timeout(0))
    if config.option.night is not None:
        config.hook.pytest_deselected(items=leave_for_other_nights(items, config.option.night))
    if config.option.markexpr == FIRST_TIER:
        take_fewer_examples(items)


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()  # thousands of collected tests are never garbage: no collection traverses them
