"""Typed headers: a header is read with the value and the kind with which it was sent.

python examples/typed_headers.py
"""

import headstream as hs

log = hs.connect("memory://")  # or file:///var/lib/shop, with the same code
log.create_topic("shop/orders")

with log.producer("shop/orders") as producer:
    producer.send(
        b'{"order": 42}',
        key=b"42",
        headers={
            "source": "web",  # str becomes string, int int64, float float64, bool bool, and bytes raw
            "attempt": hs.uint8(3),  # each other kind has a constructor
            "total": 12.5,
            "express": True,
        },
    )
    # For repeated keys, pass pairs instead of a dict; their order is kept.
    producer.send(b'{"order": 43}', headers=[("hop", "gateway"), ("hop", "pricing"), ("attempt", hs.uint8(1))])

first, second = log.poll("shop/orders", start="first")

assert first.headers["attempt"] == 3  # a typed value equals its plain value,
assert first.headers["attempt"].kind_name == "uint8"  # and keeps its kind
assert first.headers["total"].as_float64() == 12.5  # as_...() raises HeaderError if the kind is different
assert first.headers.get("missing") is None
assert second.headers["hop"] == "pricing"  # the last value of a repeated key
assert [str(hop) for hop in second.headers.getall("hop")] == ["gateway", "pricing"]

for message in (first, second):
    for key, value in message.headers.items():
        print(f"order {message.offset}: {key} = {value} ({value.kind_name})")

log.close()
