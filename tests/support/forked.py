"""Forked children: run a function in one, and return what it says."""

from __future__ import annotations

import gc
import os
import signal
import warnings
from collections.abc import Callable

_LIMIT_S = 60
"""After this time a child is taken to hang, and ends by a signal."""


def in_child(work: Callable[[], object]) -> str:
    """Return what a function returns in a forked child, as text, or its error; what it leaves is collected there.

    Args:
        work: The function.
    """
    out, into = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads, which are the subject
        child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(_LIMIT_S)
        try:
            try:
                text = str(work())
            except BaseException as error:
                text = f"{type(error).__name__}: {error}"
            gc.collect()
            os.write(into, text.encode())
            os._exit(0)
        finally:
            os._exit(1)
    os.close(into)
    with os.fdopen(out) as reader:
        text = reader.read()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code == 0, f"the child hung or crashed: {code}"
    return text
