"""Audit headers: the applications that sent and forwarded a message, with times, typed and in order, beside any payload.

python examples/audit_headers.py
"""

import time
from datetime import UTC, datetime

import headstream as hs


def sent_by(application: str, headers: hs.Headers | None = None) -> hs.Headers:
    """Return headers with one more audit entry; earlier entries are unchanged."""
    known = hs.Headers() if headers is None else headers
    return known.with_(
        ("audit.application", application),
        ("audit.time", time.time_ns() // 1000),  # microseconds as an int64: a number, not text to parse
        ("audit.hop", hs.uint16(len(known.getall("audit.hop")) + 1)),
    )


log = hs.connect("memory://")
for topic in ("bank/payments", "bank/approved"):
    log.create_topic(topic)

with log.producer("bank/payments") as producer:
    producer.send(b"pay 12.50", key=b"7", headers=sent_by("teller"))

with log.consumer("bank/payments", group="approval") as consumer, log.producer("bank/approved") as producer:
    for message in consumer.poll():
        producer.send(message.payload, key=message.key, headers=sent_by("approval", message.headers))
    producer.flush()
    consumer.commit()

(approved,) = log.poll("bank/approved", start="first")
trail = zip(*(approved.headers.getall(f"audit.{name}") for name in ("hop", "application", "time")), strict=True)
for hop, application, when in trail:
    print(hop, application, datetime.fromtimestamp(when.as_int64() / 1e6, UTC).isoformat())

# Names that begin with hs. are reserved, so that clients cannot forge headers that the log writes.
with log.producer("bank/payments") as producer:
    try:
        producer.send(b"forged", headers={"hs.origin.topic": "bank/payments"})
    except hs.HeaderError as error:
        print("refused:", error)

log.close()
