"""The kernels side by side: compiled, interpreted, the same loop by hand in C, and a plain copy.

All that is compared runs in one process, in alternating rounds, each call right after one of its own that is not
timed; what is shown is the median of the rounds, in microseconds for a batch of 1000 messages, and how often the
compiled kernel's time that is.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.machine import Report  # noqa: E402
from headstream.core.codec import mode  # noqa: E402
from headstream.core.codec.batch.stored.stamp import stamp  # noqa: E402
from headstream.core.codec.batch.to_columns.columns import decode_columns  # noqa: E402
from headstream.core.codec.binary import decode_polled, encode_sent  # noqa: E402
from tests.support import kernels  # noqa: E402
from tests.support.messages.batches import header, sent  # noqa: E402

COUNT = 1000
SHAPES = [(64, 0), (64, 3), (1024, 0), (1024, 3)]
SEED = bytes(range(16))
NOW = 1_700_000_000_000_000
HEADERS = header("attempt", 9, b"\x03") + header("source", 2, b"web") + header("total", 15, struct.pack("<d", 12.5))
ROUNDS, SLOW_ROUNDS = 300, 7

Work = Callable[[], object]


def sent_batch(size: int, headers: int) -> bytes:
    block = HEADERS if headers else b""
    return b"".join(sent(os.urandom(size), block) for _ in range(COUNT))


def stamp_in_c(folder: Path) -> Callable[[bytes], Work]:
    """Compile bench/kernel_loop.c and return what makes a call of it."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise SystemExit("a C compiler is needed for the comparison")
    target = folder / "kernel_loop.so"
    include = ROOT / "src" / "headstream" / "core" / "codec"
    source = ROOT / "bench" / "kernel_loop.c"
    subprocess.run([compiler, "-O3", "-Wall", "-shared", "-fPIC", "-I", include, "-o", target, source], check=True)
    library = ctypes.CDLL(str(target))
    function, release = library.stamp, library.release
    function.restype = release_type = ctypes.c_void_p
    function.argtypes = [ctypes.c_char_p, ctypes.c_longlong, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_char_p, ctypes.c_void_p]
    release.argtypes = [release_type]
    crc = ctypes.c_uint32()

    def call_of(batch: bytes) -> Work:
        def call() -> None:
            memory = function(batch, len(batch), 0, NOW, SEED, ctypes.byref(crc))
            release(memory)

        memory = function(batch, len(batch), 0, NOW, SEED, ctypes.byref(crc))
        expected = stamp(batch, 0, NOW, SEED, False)
        same = ctypes.string_at(memory, len(expected.data)) == expected.data and crc.value == expected.crc32c
        release(memory)
        if not same:
            raise SystemExit("the loop in C does not do the same as the kernel")
        return call

    return call_of


def copy_of(batch: bytes) -> Work:
    target = memoryview(bytearray(len(batch)))

    def call() -> None:
        target[:] = batch

    return call


def measure(work: dict[str, Work]) -> dict[str, float]:
    """Return the median time of each, in microseconds, over alternating rounds."""
    times: dict[str, list[float]] = {name: [] for name in work}
    for turn in range(ROUNDS):
        for name, call in work.items():
            if name.startswith("interpreted") and turn >= SLOW_ROUNDS:
                continue
            if not name.startswith("interpreted"):
                call()  # so that nobody finds the caches as another left them
            begin = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - begin)
    return {name: statistics.median(values) * 1e6 for name, values in times.items()}


def calls(name: str, batch: bytes, c_stamp: Callable[[bytes], Work]) -> dict[str, Work]:
    """Return what is compared for one kernel and one batch."""
    stored = bytes(stamp(batch, 0, NOW, SEED, False).data)
    found: dict[str, Work] = {}
    if name == "stamp":
        for module in kernels.variants("batch.stored.stamp"):
            found[kernels.name_of(module)] = partial(module.stamp, batch, 0, NOW, SEED, False)
        found["by hand in C"] = c_stamp(batch)
        found["copy"] = copy_of(stored)
    elif name == "check_sent":
        for module in kernels.variants("batch.stored.stamp"):
            found[kernels.name_of(module)] = partial(module.check_sent, batch, False)
    elif name == "scan":
        for module in kernels.variants("batch.stored.scan"):
            found[kernels.name_of(module)] = partial(module.scan, stored)
    elif name == "find_states":
        for module in kernels.variants("batch.stored.scan"):
            found[kernels.name_of(module)] = partial(module.find_states, stored)
    elif name.startswith("decode_columns"):
        form = name.split()[1]
        for module in kernels.variants("batch.to_columns.columns"):
            found[kernels.name_of(module)] = partial(module.decode_columns, stored, headers=form)
        found["copy"] = copy_of(stored)
    elif name == "pack":
        read = decode_columns(stored, headers="binary")
        for module in kernels.variants("batch.from_columns.pack"):
            found[kernels.name_of(module)] = partial(
                module.pack,
                read.payload_offsets,
                read.payload_data,
                headers_offsets=read.headers_offsets,
                headers_data=read.headers_data,
            )
        found["copy"] = copy_of(batch)
    else:
        messages = decode_polled(stored)
        found["interpreted decode_polled"] = partial(decode_polled, stored)
        found["interpreted encode_sent"] = partial(encode_sent, messages)
    return found


SUBJECTS = [
    "stamp",
    "check_sent",
    "scan",
    "find_states",
    "decode_columns none",
    "decode_columns binary",
    "decode_columns variant",
    "pack",
    "Message values",
]


def main() -> None:
    """Measure every kernel and write bench/results/kernels.txt."""
    with Report("kernels") as report, tempfile.TemporaryDirectory() as folder:
        report.line(mode.describe())
        report.line(f"microseconds for {COUNT} messages, median of {ROUNDS} alternating rounds ({SLOW_ROUNDS} interpreted)")
        c_stamp = stamp_in_c(Path(folder))
        for name in SUBJECTS:
            report.line("")
            report.line(f"{name:28}" + "".join(f"{f'{size} B, {headers} headers':>24}" for size, headers in SHAPES))
            columns = [measure(calls(name, sent_batch(size, headers), c_stamp)) for size, headers in SHAPES]
            for row in columns[0]:
                cells = [f"{column[row]:.1f} ({column[row] / next(iter(column.values())):.2f}x)" for column in columns]
                report.line(f"  {row:26}" + "".join(f"{cell:>24}" for cell in cells))


if __name__ == "__main__":
    main()
