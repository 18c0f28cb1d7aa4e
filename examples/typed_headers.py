"""Typed headers: what you send is what you read, kind and all.

python examples/typed_headers.py
"""

import headstream as hs

log = hs.connect("memory://")  # or file:///var/lib/shop: the code stays the same
log.create_topic("shop/orders")

with log.producer("shop/orders") as producer:
    producer.send(
        b'{"order": 42}',
        key=b"42",
        headers={
            "source": "web",  # a str is a string, an int an int64, a float a float64, a bool a bool, bytes are raw
            "attempt": hs.uint8(3),  # any other kind has its constructor
            "total": 12.5,
            "express": True,
        },
    )
    # A key may repeat, and order is kept: give pairs instead of a dict.
    producer.send(b'{"order": 43}', headers=[("hop", "gateway"), ("hop", "pricing"), ("attempt", hs.uint8(1))])

first, second = log.poll("shop/orders", start="first")

assert first.headers["attempt"] == 3  # a typed value equals the plain one that it holds,
assert first.headers["attempt"].kind_name == "uint8"  # and keeps its kind
assert first.headers["total"].as_float64() == 12.5  # as_...() makes sure of the kind; HeaderError if it is another
assert first.headers.get("missing") is None
assert second.headers["hop"] == "pricing"  # the last value of a repeated key
assert [str(hop) for hop in second.headers.getall("hop")] == ["gateway", "pricing"]

for message in (first, second):
    for key, value in message.headers.items():
        print(f"order {message.offset}: {key} = {value} ({value.kind_name})")

log.close()
