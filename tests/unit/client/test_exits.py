"""Unit tests of headstream.client.exits."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import headstream as hs


def test_a_program_that_ends_without_flushing_loses_nothing(tmp_path: Path) -> None:
    program = (
        "import headstream as hs, sys\n"
        "log = hs.connect(sys.argv[1])\n"
        "log.create_topic('shop/orders')\n"
        "producer = log.producer('shop/orders', linger_ms=60_000)\n"
        "for n in range(10): producer.send(b'%d' % n)\n"
    )
    subprocess.run([sys.executable, "-c", program, tmp_path.as_uri()], check=True, timeout=60)
    with hs.connect(tmp_path.as_uri()) as log:
        assert log.topic("shop/orders").messages_count == 10
