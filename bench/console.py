"""How long the console's first view takes in a browser, how many bytes it loads, and how smoothly many messages scroll.

A server runs in this process with topics and groups; Chromium, without a window, opens the console with an empty cache, logged in
by an earlier cookie. The time is from the request of the page until the overview shows its numbers; the bytes are those of
the bodies as sent, compressed. Frames are those of a list of 1,000,000 messages that the wheel moves, some 3 rows a frame, which
loads every page of it, and that jumps through all of it as by its scroll bar.

    python -m bench.console [--quick]
"""

from __future__ import annotations

import shutil
import statistics
import time
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from bench.machine import run_benchmark
from headstream.client.client import Client
from headstream.core.codec.binary import encode_sent
from headstream.core.model.identifiers import TopicName
from headstream.core.model.message import Message
from headstream.core.model.topology import Limits, NewTopic
from tests.behaviour.console.conftest import FLAGS, log_in
from tests.support.server.http_servers import Http, serving


def open_console(browser: Browser, http: Http, state: Any) -> tuple[float, int, int]:
    """Return the milliseconds of a first view, the bytes of its bodies, and how many requests it made."""
    context = browser.new_context(storage_state=state)
    page = context.new_page()
    sizes: list[int] = []
    page.on("requestfinished", lambda request: sizes.append(request.sizes()["responseBodySize"]))
    began = time.perf_counter()
    page.goto(f"http://{http.host}:{http.port}/console/", wait_until="commit")
    page.locator(".tile strong").first.wait_for()
    took_ms = 1000 * (time.perf_counter() - began)
    page.wait_for_load_state("networkidle")
    found = took_ms, sum(sizes), len(sizes)
    context.close()
    return found


def send_many(http: Http) -> None:
    """Append 1,000,000 messages to a topic."""
    topic = TopicName.parse("shop/many")
    http.dispatcher.broker.topics.create(NewTopic(topic, 1, Limits.WIDE))
    for begin in range(0, 1_000_000, 50_000):
        batch = encode_sent([Message(payload=b"message %d" % number) for number in range(begin, begin + 50_000)])
        http.dispatcher.broker.messages.send(topic, 1, batch)


FRAMES = """(act) => new Promise((done) => {
  const box = document.querySelector("[data-list]"), times = [];
  let last = performance.now(), from = last, step = 0;
  const next = (now) => {
    times.push(now - last);
    last = now;
    if (now - from > 5000) return done(times.slice(2));
    step += 1;
    if (act === "wheel") box.dispatchEvent(new WheelEvent("wheel", {deltaY: 90, cancelable: true}));
    else box.scrollTop = (box.scrollHeight - box.clientHeight) * ((step % 100) / 100);
    requestAnimationFrame(next);
  };
  requestAnimationFrame(next);
})"""
"""The milliseconds between the frames of five seconds."""


def measure_frames(page: Page, act: str) -> str:
    """Return the times between frames while a list is moved, in words."""
    times = sorted(page.evaluate(FRAMES, act))
    late = sum(one > 50 for one in times)
    part = times[len(times) * 99 // 100]
    return f"{statistics.median(times):.1f} ms a frame, 99 % within {part:.1f} ms, {late} of {len(times)} later than 50 ms"


def main() -> None:
    """Measure, and write results/console.txt."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    with run_benchmark("console", __doc__, "few views; no results are written") as (report, _, is_quick), serving() as http:
        log = Client(http.dispatcher.broker)
        for number in range(50):
            log.create_topic(f"shop/topic-{number}", partitions=4)
            log.seek_group(f"shop/topic-{number}", "billing", "first")
        with sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=chromium, args=FLAGS)
            report.line(f"Chromium {browser.version}; 50 topics, 50 groups")
            context = browser.new_context()
            page = context.new_page()
            page.goto(f"http://{http.host}:{http.port}/console/")
            log_in(page)
            page.get_by_role("heading", name="Overview").wait_for()
            state = context.storage_state()
            views = [open_console(browser, http, state) for _ in range(3 if is_quick else 15)]
            send_many(http)
            page.evaluate("location.hash = '#/messages/shop/many'")
            page.locator(".list .row .time").first.wait_for()
            frames = {act: measure_frames(page, act) for act in ("wheel", "jumps")}
            browser.close()
        times = sorted(view[0] for view in views)
        spread = f"{times[0]:.0f} to {times[-1]:.0f}"
        report.line(f"first view: {statistics.median(times):.0f} ms (median of {len(times)}, {spread}), empty cache")
        size, requests = max(view[1] for view in views), max(view[2] for view in views)
        report.line(f"loaded: {size / 1000:.1f} kB in {requests} requests, including responses")
        for act, words in frames.items():
            report.line(f"1,000,000 messages, {act}: {words}")


if __name__ == "__main__":
    main()
