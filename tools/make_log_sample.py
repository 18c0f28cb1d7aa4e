"""Make the sample log that every later Headstream must open: python tools/make_log_sample.py tests/samples/log-format-1

It is made once a format and never again; a new format gets a sample of its own beside it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import headstream as hs


def make_sample(directory: Path) -> None:
    """Write a small log: two topics of all sorts, a changed state, a committed offset, several segments."""
    with hs.connect(directory.absolute().as_uri(), segment_bytes=4096) as log:
        log.create_topic("shop/orders", partitions=2)
        log.create_topic("shop/wide", limits="wide", fsync="always")
        with log.producer("shop/orders") as producer:
            for number in range(40):
                producer.send(b"order %d " % number + b"." * 200, key=b"customer %d" % (number % 7), headers={"attempt": number})
                producer.flush()
        with log.producer("shop/wide") as producer:
            producer.send(None, key=b"gone", headers={"note": ""})
        log.set_state("shop/orders", 1, [0], "poisoned", reason="cannot be read", by="sample")
        with log.consumer("shop/orders", name="billing", start="first") as consumer:
            consumer.poll(count=5)
            consumer.commit()
    (directory / "headstream.lock").unlink()


if __name__ == "__main__":
    make_sample(Path(sys.argv[1]))
