"""A well-behaved producer and consumer alone, and beside hostile clients: what they lose, and how long they wait.

The hostile clients (tests/hostile.py): strangers, wrong logins, partial frames and bodies, slow readers, mad states, broken
epochs, surveys of everything, sends without rights, datagrams that are none. They run in a process of their own, one thread a
kind. The producer sends one message after the other and waits for each; times are of that, and from a message's sending to its
arrival at the consumer. The arguments are how many seconds the hostile ones stay (300), and how many partitions there are besides
(20000); results are written down when they stay for 300 or more.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.machine import Report  # noqa: E402
from tests.hostile_soak import BUDGET, Phase, soak  # noqa: E402

SECONDS = 300.0
PARTITIONS = 20_000
QUIET_SHARE = 5
"""The good clients are alone for such a part of the time first."""


def main(seconds: float = SECONDS, partitions: float = PARTITIONS) -> None:
    with Report("server_hostile", write=seconds >= SECONDS) as report, tempfile.TemporaryDirectory() as directory:
        found = soak(Path(directory), max(seconds / QUIET_SHARE, 3.0), seconds, int(partitions))
        report.line(f"{seconds:g} s beside hostile clients, {partitions:g} partitions, memory budget {BUDGET}")
        report.line(f"{'ms':8} {'send p50':>9} {'p99':>9} {'p99.9':>9} {'arrival p50':>12} {'p99':>9} {'memory MB':>10}")
        for phase in (found.quiet, found.hostile):
            sends = [Phase.percentile_ms(phase.sends_s, share) for share in (0.5, 0.99, 0.999)]
            arrivals = [Phase.percentile_ms(phase.arrivals_s, share) for share in (0.5, 0.99)]
            report.line(
                f"{phase.name:8} {sends[0]:9.2f} {sends[1]:9.2f} {sends[2]:9.2f} {arrivals[0]:12.2f} {arrivals[1]:9.2f}"
                f" {phase.most_resident_bytes / 1e6:10.0f}"
            )
        ratio = Phase.percentile_ms(found.hostile.sends_s, 0.99) / Phase.percentile_ms(found.quiet.sends_s, 0.99)
        report.line(f"p99 of a send beside hostile clients is {ratio:.1f} times the quiet one")
        report.line(f"memory some seconds after they have gone: {found.resident_after_bytes / 1e6:.0f} MB")
        whole = "once each, in order" if found.is_complete else "NOT all of them once and in order"
        report.line(f"{found.sent} messages sent, {len(found.received)} received: {whole}")
        report.line("rounds: " + ", ".join(f"{name} {count}" for name, count in found.hostile_rounds.items()))


if __name__ == "__main__":
    main(*map(float, sys.argv[1:]))
