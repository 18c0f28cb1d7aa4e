"""Submission: who appends what is committed, when another process has the log's lock, and when it is answered."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from headstream.errors import LogLockedError
from headstream.log.staged.submission import commit_staged, is_committed
from tests.support.log.staged import BOTH, ORDERS, contents, is_swept, make_log, make_staged, open_log

HOLDER = """
import sys, headstream as hs
with hs.connect(sys.argv[1]) as log, log.producer("shop/orders") as producer:
    producer.send(b"first", partition=2)
    producer.flush()
    print("writing", flush=True)
    sys.stdin.readline()
    producer.send(b"last", partition=2)
    producer.flush()
    print("done", flush=True)
    sys.stdin.readline()
"""

SLOW_TO_CLEAR = """
import time
from headstream.log.staged.commits import StagedCommits
clear = StagedCommits._clear
def clear_late(*arguments):
    time.sleep(0.2)
    clear(*arguments)
StagedCommits._clear = clear_late
"""

IDLE_HOLDER = """
import sys
from headstream.log.directory.lock import WriterLock
lock = WriterLock(sys.argv[1] + "/headstream.lock")
lock.acquire()
print("writing", flush=True)
sys.stdin.readline()
"""


def hold(script: str, argument: str) -> subprocess.Popen[bytes]:
    holder = subprocess.Popen([sys.executable, "-c", script, argument], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"writing\n"
    return holder


def test_the_process_that_has_the_lock_appends_what_another_commits(tmp_path: Path) -> None:
    manifest = make_staged(tmp_path)
    with hold(HOLDER, tmp_path.as_uri()) as holder:
        commit_staged(str(tmp_path), manifest, 20)
        assert contents(tmp_path) == {**BOTH, (ORDERS, 2): [b"first", b"c"]}
        assert is_swept(tmp_path)
        out, _ = holder.communicate(b"\n\n", timeout=120)
        assert out == b"done\n"
    assert contents(tmp_path)[ORDERS, 2] == [b"first", b"c", b"last"]


@pytest.mark.parametrize("dies", [False, True])
def test_commit_answers_when_the_other_process_has_cleared_away_too(tmp_path: Path, dies: bool) -> None:
    manifest = make_staged(tmp_path)
    script = SLOW_TO_CLEAR.replace("time.sleep(0.2)", "os._exit(1)").replace("time", "os") if dies else SLOW_TO_CLEAR
    with hold(script + HOLDER, tmp_path.as_uri()) as holder:
        commit_staged(str(tmp_path), manifest, 20)
        assert is_swept(tmp_path)
        assert (holder.wait(60) == 1) if dies else (holder.poll() is None)
        holder.communicate(None if dies else b"\n\n", timeout=120)
    assert contents(tmp_path)[ORDERS, 1] == BOTH[ORDERS, 1]


def test_commit_is_withdrawn_when_the_process_that_has_the_lock_does_not_append_it(tmp_path: Path) -> None:
    manifest = make_staged(tmp_path)
    with hold(IDLE_HOLDER, str(tmp_path)) as holder:
        with pytest.raises(LogLockedError, match=f"process {holder.pid} is writing.*within 0.05 s.*Nothing was written"):
            commit_staged(str(tmp_path), manifest, 0.05)
        assert contents(tmp_path) == {}
        assert not is_committed(str(tmp_path), "query", 7)
        holder.communicate(b"\n", timeout=120)
    commit_staged(str(tmp_path), manifest, 20)
    assert is_committed(str(tmp_path), "query", 7)
    assert contents(tmp_path) == BOTH


def test_commit_is_taken_over_when_the_process_that_has_the_lock_ends(tmp_path: Path) -> None:
    manifest = make_staged(tmp_path)
    with hold(IDLE_HOLDER, str(tmp_path)) as holder:
        looks = []

        def sleep(seconds: float) -> None:
            looks.append(seconds)
            if len(looks) == 3:
                holder.communicate(b"\n", timeout=120)

        commit_staged(str(tmp_path), manifest, 60, sleep=sleep)
    assert len(looks) >= 3
    assert contents(tmp_path) == BOTH


def test_opening_for_writing_waits_for_one_who_only_commits(tmp_path: Path) -> None:
    make_log(tmp_path, {ORDERS: 2})
    script = IDLE_HOLDER.replace("acquire()", "acquire(briefly=True)").replace(
        "sys.stdin.readline()", "import time; time.sleep(0.1)"
    )
    with hold(script, str(tmp_path)):
        log = open_log(tmp_path)
        log.start_writing("identity", 1)  # it is refused at once where the other holds it for good
        log.close()
