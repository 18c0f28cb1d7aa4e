"""A well-behaved producer and consumer alone, and beside hostile clients: what they lose, and how long they wait.

quiet    nobody else
surveys  others ask for stats, /metrics and lists of all topics in a loop, over twelve connections
all      unauthenticated clients, wrong logins, partial frames and bodies, slow readers, mad states, broken epochs, surveys,
         sends without rights, datagrams that are none (tests/support/server/hostile.py), one thread a kind

The hostile clients have a process of their own, of a lower priority: it stands for other machines, which would not take the
processors from the server. The producer sends one message after the other and waits for each; times are of that, and from a
message's sending to its arrival at the consumer. `echo` is a small request to a separate process that only echoes
(tests/support/server/echo.py): its delay beside the others is what they take of the machine's processors.
The arguments are how many seconds all hostile ones stay (300), and how many partitions there are besides (20000); results are
written down when they stay for 300 or more.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.machine import Report  # noqa: E402
from tests.support.server.hostile_soak import BUDGET, Phase, soak  # noqa: E402

SECONDS = 300.0
PARTITIONS = 20_000
QUIET_SECONDS = 60.0
"""The good clients are alone for such a time at most, a fifth of the time of the hostile ones if that is less."""


def main(seconds: float = SECONDS, partitions: float = PARTITIONS) -> None:
    with Report("server_hostile", write=seconds >= SECONDS) as report, tempfile.TemporaryDirectory() as directory:
        found = soak(Path(directory), max(min(seconds / 5, QUIET_SECONDS), 3.0), seconds, int(partitions))
        report.line(f"{seconds:g} s beside all hostile clients, {partitions:g} partitions, memory budget {BUDGET}")
        report.line("hostile clients run with a lower priority (nice +10): real ones would run on other machines")
        report.line(
            f"{'ms':8} {'send p50':>9} {'p99':>9} {'p99.9':>9} {'arrival p50':>12} {'p99':>9} {'echo p99':>9} {'memory MB':>10}"
        )
        for phase in (found.quiet, found.surveyed, found.hostile):
            sends = [Phase.percentile_ms(phase.sends_s, share) for share in (0.5, 0.99, 0.999)]
            arrivals = [Phase.percentile_ms(phase.arrivals_s, share) for share in (0.5, 0.99)]
            report.line(
                f"{phase.name:8} {sends[0]:9.2f} {sends[1]:9.2f} {sends[2]:9.2f} {arrivals[0]:12.2f} {arrivals[1]:9.2f}"
                f" {Phase.percentile_ms(phase.echoes_s, 0.99):9.2f} {phase.most_resident_bytes / 1e6:10.0f}"
            )
        for name, hostile_s, quiet_s in (
            ("a send", found.hostile.sends_s, found.quiet.sends_s),
            ("an arrival", found.hostile.arrivals_s, found.quiet.arrivals_s),
            ("an echo, which the server has no part in", found.hostile.echoes_s, found.quiet.echoes_s),
        ):
            ratio = Phase.percentile_ms(hostile_s, 0.99) / Phase.percentile_ms(quiet_s, 0.99)
            report.line(f"p99 of {name} is {ratio:.1f} times the quiet one")
        report.line(f"memory some seconds after they have gone: {found.resident_after_bytes / 1e6:.0f} MB")
        whole = "once each, in order" if found.is_complete else "NOT all of them once and in order"
        report.line(f"{found.sent} messages sent, {len(found.received)} received: {whole}")
        report.line("rounds: " + ", ".join(f"{name} {count}" for name, count in found.hostile.rounds.items()))


if __name__ == "__main__":
    main(*map(float, sys.argv[1:]))
