"""Routing by header: a consumer that reads only headers, and forwards unchanged messages to the topics of their regions.

python examples/route_by_header.py
"""

import headstream as hs

ROUTES = {"eu": "shop/orders-eu", "us": "shop/orders-us"}
ELSEWHERE = "shop/orders-elsewhere"

log = hs.connect("memory://")
for topic in ("shop/orders", *ROUTES.values(), ELSEWHERE):
    log.create_topic(topic)

with log.producer("shop/orders") as producer:
    for number, region in enumerate(["eu", "us", "eu", "jp"]):
        producer.send(b"order %d" % number, key=b"%d" % number, headers={"region": region, "priority": hs.uint8(number)})
    producer.send(b"order 4", headers={"priority": hs.uint8(9)})  # has no header `region`

with log.consumer("shop/orders", group="router") as consumer:
    producers = {topic: log.producer(topic) for topic in (*ROUTES.values(), ELSEWHERE)}
    messages = consumer.poll(100)
    for message in messages:
        region = message.headers.get("region")
        urgent = message.headers["priority"].to_int() >= 9  # a number, so 10 is greater than 9
        topic = ROUTES.get(str(region), ELSEWHERE) if region is not None and not urgent else ELSEWHERE
        # The payload is not read, and headers that are not read are forwarded as the same bytes.
        producers[topic].send(message.payload, key=message.key, headers=message.headers)
    for producer in producers.values():
        producer.close()
    consumer.commit()  # after all messages are stored: a crash before the commit repeats messages, but loses none

for topic in (*ROUTES.values(), ELSEWHERE):
    print(topic, [message.payload.decode() for message in log.poll(topic, start="first") if message.payload])

log.close()
