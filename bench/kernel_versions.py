"""The kernels of two source trees side by side: is the compiled speed of one the same as that of the other?

Each tree runs in a process of its own, and the two take turns: a round times every kernel once in one tree, then in the
other, each call right after one that is not timed. What is shown is the median of the rounds, in microseconds for a batch of
1000 messages, the fastest round, and the ratio of the medians.

    python -m bench.kernel_versions OLD_SRC NEW_SRC [ROUNDS] [NOTE]     # both with compiled kernels, e.g. from git archive
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.machine import Report  # noqa: E402

SHAPES = [(64, 0), (64, 3), (1024, 0), (1024, 3)]

# Runs in both trees, whose modules have other places: the folders of codec/batch came later.
WORKER = """
import importlib, json, random, struct, sys, time
def find(name, *modules):
    for module in modules:
        try:
            return getattr(importlib.import_module("headstream.core.codec.batch." + module), name)
        except ImportError:
            continue
stamp = find("stamp", "stored.stamp", "stamp")
scan = find("scan", "stored.scan", "scan")
find_states = find("find_states", "stored.scan", "scan")
decode = find("decode_columns", "to_columns.columns", "columns")
pack = find("pack", "from_columns.pack", "pack")
hash_keys = find("hash_keys", "from_columns.keys_and_ids", "placing")
assert all(f.__module__ and "cython" in type(f).__name__ for f in (stamp, scan, decode, pack)), "not compiled"
def header(key, kind, value):
    return struct.pack("<I", len(key)) + key + bytes([kind]) + struct.pack("<I", len(value)) + value
BLOCK = header(b"attempt", 9, b"\\x03") + header(b"source", 2, b"web") + header(b"total", 15, struct.pack("<d", 12.5))
def sent(size, headers):
    rng, block = random.Random(size + headers), BLOCK if headers else b""
    frame = lambda body: bytes(16) + struct.pack("<I", len(block)) + block + struct.pack("<I", len(body)) + body
    return b"".join(frame(rng.randbytes(size)) for _ in range(1000))
NOW, SEED, work = 1_700_000_000_000_000, bytes(range(16)), {}
for size, headers in json.loads(sys.argv[1]):
    batch = sent(size, headers)
    stored = bytes(stamp(batch, 0, NOW, SEED, False).data)
    read = decode(stored, headers="binary")
    calls = {
        "stamp": lambda b=batch: stamp(b, 0, NOW, SEED, False),
        "scan": lambda s=stored: scan(s),
        "find_states": lambda s=stored: find_states(s),
        "decode_columns none": lambda s=stored: decode(s, headers="none"),
        "decode_columns binary": lambda s=stored: decode(s, headers="binary"),
        "decode_columns variant": lambda s=stored: decode(s, headers="variant"),
        "pack": lambda r=read: pack(r.payload_offsets, r.payload_data, headers_offsets=r.headers_offsets,
                                    headers_data=r.headers_data),
    }
    work |= {f"{name}|{size}|{headers}": call for name, call in calls.items()}
for line in sys.stdin:
    times = {}
    for name, call in work.items():
        call()
        begin = time.perf_counter()
        call()
        times[name] = (time.perf_counter() - begin) * 1e6
    print(json.dumps(times), flush=True)
"""


def start(source: str) -> subprocess.Popen[str]:
    """Start a process that times the kernels of a tree whenever it reads a line."""
    command = [sys.executable, "-c", WORKER, json.dumps(SHAPES)]
    environment = {**os.environ, "PYTHONPATH": source}
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)


def round_of(process: subprocess.Popen[str]) -> dict[str, float]:
    """Run one round in a process, and return the time of each kernel."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    times: dict[str, float] = json.loads(process.stdout.readline())
    return times


def main() -> None:
    """Measure both trees and write bench/results/kernel_versions.txt."""
    old, new = start(sys.argv[1]), start(sys.argv[2])
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 200
    try:
        found = [(round_of(old), round_of(new)) for _ in range(rounds)]
    finally:
        for process in (old, new):
            process.kill()
            process.wait()
    with Report("kernel_versions") as report:
        load = os.getloadavg()[0]
        report.line(f"microseconds for 1000 messages, {rounds} alternating rounds: median (fastest); load {load:.1f}")
        for note in sys.argv[4:]:
            report.line(note)
        names = list(dict.fromkeys(key.split("|")[0] for key in found[0][0]))
        for name in names:
            report.line("")
            report.line(f"{name:26}" + "".join(f"{f'{size} B, {headers} headers':>24}" for size, headers in SHAPES))
            keys = [f"{name}|{size}|{headers}" for size, headers in SHAPES]
            medians = []
            for place, label in enumerate(("old", "new")):
                columns = [[pair[place][key] for pair in found] for key in keys]
                medians.append([statistics.median(column) for column in columns])
                cells = [f"{statistics.median(column):.1f} ({min(column):.1f})" for column in columns]
                report.line(f"  {label:24}" + "".join(f"{cell:>24}" for cell in cells))
            ratios = [f"{after / before:.2f}x" for before, after in zip(*medians, strict=True)]
            report.line(f"  {'new / old':24}" + "".join(f"{cell:>24}" for cell in ratios))


if __name__ == "__main__":
    main()
