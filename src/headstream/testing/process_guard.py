"""Runs a program as long as the parent process runs, then removes the program's files.

    python process_guard.py [--signal NAME] FOLDER PROGRAM ARGUMENTS...

The guard ends the program (with the named signal, SIGKILL by default) and removes FOLDER (unless the argument is empty) when the
guard's standard input is closed, its parent has exited, or the guard is terminated. An interrupted or killed test run therefore
leaves neither processes nor files. If the guard reads the word `keep`, it ends the program but retains the folder.

The guard is run as a script in its own session. The guard does not import Headstream, so that the guard starts quickly.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
from typing import Final

_CHECK_SECONDS: Final = 0.2
"""Interval at which the parent is checked, seconds; its pipe alone does not suffice, because a forked process can inherit it."""
_STOP_SECONDS: Final = 20
_END_SECONDS: Final = 10
"""Time after which a program that ignores the signal is killed."""


def main(arguments: list[str]) -> int:
    """Run the program and return its exit code; the arguments are as in the module's docstring."""
    ending = signal.SIGKILL
    if arguments[0] == "--signal":
        ending, arguments = signal.Signals[arguments[1]], arguments[2:]
    folder, *command = arguments
    parent = os.getppid()
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    signal.signal(signal.SIGTERM, lambda *_: process.send_signal(ending))
    word = _wait(process, parent)
    process.send_signal(ending)
    try:
        code = process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        code = process.wait()
    if folder and word == b"":
        shutil.rmtree(folder, ignore_errors=True)
    return code if code >= 0 else 128 - code


def end(guard: subprocess.Popen[bytes], word: bytes) -> None:
    """End a running guard and its program; the word `keep` retains the folder, an empty word removes the folder."""
    assert guard.stdin is not None
    with contextlib.suppress(BrokenPipeError):  # the guard has exited
        guard.stdin.write(word)
        guard.stdin.close()
    try:
        guard.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        guard.terminate()
        guard.wait(_STOP_SECONDS)


def _wait(process: subprocess.Popen[bytes], parent: int) -> bytes | None:
    """Return the parent's command, empty if the parent has exited, or None if the program has exited."""
    while process.poll() is None:
        if select.select([sys.stdin], [], [], _CHECK_SECONDS)[0]:
            return os.read(sys.stdin.fileno(), 16)
        if os.getppid() != parent:
            return b""
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
