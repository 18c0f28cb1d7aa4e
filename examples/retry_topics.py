"""Retry topics: attempts, delays and dead letters in a log that stores no state of single messages, such as Kafka.

python examples/retry_topics.py                         in memory
python examples/retry_topics.py kafka://host:9092

A failed message is sent to the topic of its next attempt, and after the last attempt to the dead-letter topic. All messages of a
retry topic have the same delay, so that a message never waits for a message with a longer delay. There are two limitations. The
order is not kept: a failed message is processed after later messages of its key. Copies can be repeated: a crash between the copy
and the commit sends the copy again; the headers retry.topic, retry.partition and retry.offset identify a repeated copy.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable

import headstream as hs

TOPIC, GROUP = "shop/orders", "billing"
DEAD = f"{TOPIC}.dead"
DELAYS_S = (0.1, 0.3)
"""The delays before the second and the third attempt; in production, use seconds to minutes, below max.poll.interval.ms."""
LAST = 1 + len(DELAYS_S)


def topic_of(attempt: int) -> str:
    """Return the topic with the messages for an attempt."""
    return TOPIC if attempt == 1 else DEAD if attempt > LAST else f"{TOPIC}.retry-{attempt}"


def consume(log: hs.Client, attempt: int, process: Callable[[hs.ReceivedMessage], None], ended: threading.Event) -> None:
    """Process the messages of one attempt until `ended` is set. Run one thread or process per partition at most."""
    with (
        log.producer(topic_of(attempt + 1), linger_ms=0) as producer,
        log.consumer(topic_of(attempt), group=GROUP, timeout_ms=200) as consumer,
    ):
        while not ended.is_set():
            for message in consumer:  # committed when the next message is requested
                if attempt > 1:
                    due_s = message.timestamp / 1e6 + DELAYS_S[attempt - 2]
                    time.sleep(max(0.0, due_s - time.time()))
                try:
                    process(message)
                except Exception as error:
                    receipt = producer.send(message.payload, key=message.key, headers=headers_of(message, attempt, error))
                    receipt.result()  # stored before the commit: a crash repeats a message, but loses none


def headers_of(message: hs.ReceivedMessage, attempt: int, error: Exception) -> hs.Headers:
    """Return the headers of a copy: the message's headers, its original position, and the error."""
    kept = [(name, value) for name, value in message.headers.items() if name not in ("retry.attempts", "retry.error")]
    if attempt == 1:
        kept += [("retry.topic", hs.string(message.topic)), ("retry.partition", hs.int32(message.partition))]
        kept += [("retry.offset", hs.int64(message.offset)), ("retry.first_failed_us", hs.int64(time.time_ns() // 1000))]
    text = f"{type(error).__name__}: {error}"[:255]
    return hs.Headers([*kept, ("retry.attempts", hs.int32(attempt)), ("retry.error", hs.string(text))])


def main(url: str) -> None:
    """Process 20 orders; one order always fails, and another order fails once."""
    done: list[tuple[bytes | None, int]] = []
    ended = threading.Event()

    def process(message: hs.ReceivedMessage) -> None:
        attempt = 1 + message.headers["retry.attempts"].to_int() if "retry.attempts" in message.headers else 1
        if message.payload == b"order 13" or (message.payload == b"order 7" and attempt == 1):
            raise ValueError("no such product")
        done.append((message.payload, attempt))

    with hs.connect(url) as log:
        for attempt in range(1, LAST + 2):
            log.create_topic(topic_of(attempt), if_not_exists=True)
        with log.producer(TOPIC) as producer:
            for number in range(20):
                producer.send(b"order %d" % number, key=b"%d" % number, headers={"source": "web"})
        workers = [threading.Thread(target=consume, args=(log, attempt, process, ended)) for attempt in range(1, LAST + 1)]
        for worker in workers:
            worker.start()
        with log.consumer(DEAD, timeout_ms=60_000) as letters:
            letter = next(letters)
        ended.set()
        for worker in workers:
            worker.join()
    print(f"{letter.payload!r} failed {letter.headers['retry.attempts']} times: {letter.headers['retry.error']}")
    print(f"it was sent to {letter.headers['retry.topic']}, partition {letter.headers['retry.partition']}")
    assert letter.payload == b"order 13"
    assert letter.headers["source"] == "web"
    assert letter.headers["retry.attempts"] == LAST
    assert sorted(done) == sorted((b"order %d" % number, 2 if number == 7 else 1) for number in range(20) if number != 13)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "memory://")
