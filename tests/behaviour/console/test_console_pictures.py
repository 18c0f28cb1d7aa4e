"""Pages look as in the committed pictures (tests/samples/console), drawn by the same Chromium.

`make pictures` draws them anew, and those of the documentation: look at each of them before you commit it.
"""

from __future__ import annotations

import base64
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headstream.client.client import Client
from tests.behaviour.console.conftest import go, log_in
from tests.behaviour.console.picture_scenes import SCENES, VARYING, fill, open_at_fixed_time, seek, serving_pictures
from tests.support.server.http_servers import Http, serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ROOT = Path(__file__).parents[3]
PICTURES = ROOT / "tests" / "samples" / "console"
DOCS = ROOT / "docs"
VERSION = PICTURES / "chromium.txt"
FIRST_TIER = ("overview-light",)
IS_RENEWING = bool(os.environ.get("HEADSTREAM_RENEW_PICTURES"))
WIDTH, HEIGHT = 1180, 720

MOST_DIFFERENT = 0.004
"""The part of a picture's pixels that may differ: fonts are drawn a little differently by other processors."""

COMPARE = """async ([before, after]) => {
  const read = async (data) => {
    const image = await createImageBitmap(await (await fetch("data:image/png;base64," + data)).blob());
    const canvas = new OffscreenCanvas(image.width, image.height);
    const drawing = canvas.getContext("2d");
    drawing.drawImage(image, 0, 0);
    return drawing.getImageData(0, 0, image.width, image.height);
  };
  const [one, other] = [await read(before), await read(after)];
  if (one.width !== other.width || one.height !== other.height) return 1;
  let different = 0;
  for (let at = 0; at < one.data.length; at += 4) {
    const far = Math.max(...[0, 1, 2].map((channel) => Math.abs(one.data[at + channel] - other.data[at + channel])));
    if (far > 40) different += 1;
  }
  return different / (one.width * one.height);
}"""


@pytest.fixture(scope="module", autouse=True)
def same_chromium(browser: Browser) -> None:
    """Skip where another version draws: its letters have other edges."""
    drawn_by = None if IS_RENEWING else VERSION.read_text(encoding="utf-8").strip()
    if drawn_by not in (None, browser.version):
        pytest.skip(f"the pictures were drawn by Chromium {drawn_by}, this is {browser.version}")


@pytest.fixture(scope="module")
def http(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Http]:
    with pytest.MonkeyPatch.context() as patch, serving_pictures(tmp_path_factory.mktemp("pictures"), patch) as served:
        yield served


def difference(browser: Browser, before: bytes, after: bytes) -> float:
    """Return the part of the pixels in which two PNG files differ; 1 if their sizes do."""
    page = browser.new_page()
    try:
        return float(page.evaluate(COMPARE, [base64.b64encode(data).decode() for data in (before, after)]))
    finally:
        page.close()


def check(browser: Browser, page: Page, name: str) -> None:
    """Compare what a page shows with its committed picture, or renew the picture."""
    page.evaluate(
        """names => document.querySelectorAll(".tile").forEach((tile) =>
             tile.classList.toggle("varying", names.includes(tile.querySelector("dt").textContent)))""",
        ["Memory", "Running for", "Requests refused", "Connections"],
    )
    shown = page.screenshot(style=VARYING)
    path = PICTURES / f"{name}.png"
    if IS_RENEWING:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(shown)
        VERSION.write_text(f"{browser.version}\n", encoding="utf-8")
        return
    found = difference(browser, path.read_bytes(), shown)
    if found > MOST_DIFFERENT:
        failed = Path(os.environ.get("HEADSTREAM_PICTURES", ".")) / f"{name}.failed.png"
        failed.write_bytes(shown)
        pytest.fail(f"{found:.2%} of the pixels differ from {path}: see {failed.absolute()}; if it is right, run make pictures")


@pytest.mark.skipif(not IS_RENEWING, reason="draws pictures of the documentation (make pictures)")
def test_pictures_of_live_plots_are_drawn(browser: Browser) -> None:
    """The overview after a minute of traffic that comes and goes; first, since the other pictures stop the clock."""
    ended = threading.Event()
    with serving() as http:
        log = Client(http.dispatcher.broker)
        fill(log)

        def work() -> None:
            step = 0
            with log.producer("shop/orders") as orders, log.producer("web/clicks") as clicks:
                while not ended.wait(0.5):
                    step += 1
                    for _ in range(60 + 50 * (step // 12 % 3) + step % 7):
                        clicks.send(b"x" * 120)
                    for _ in range(20 + 30 * (step // 20 % 2)):
                        orders.send(b"x" * 300)
                    if step % 3 == 0:
                        ends = {one.number: one.end_offset for one in log.topic("web/clicks").partitions}
                        seek(log, "web/clicks", "recommendations", {n: end - 40 - step % 50 for n, end in ends.items()})

        worker = threading.Thread(target=work)
        worker.start()
        try:
            context = browser.new_context(viewport={"width": 1320, "height": 820}, color_scheme="light", locale="en-GB")
            page = context.new_page()
            page.goto(f"http://{http.host}:{http.port}/console/")
            log_in(page)
            page.wait_for_timeout(90_000)  # what is drawn is what has happened in the time
            (DOCS / "console-overview.png").write_bytes(page.screenshot())
            page.get_by_role("button", name="Dark colours").click()
            page.wait_for_timeout(3_000)
            (DOCS / "console-dark.png").write_bytes(page.screenshot())
            context.close()
        finally:
            ended.set()
            worker.join(60)


@pytest.mark.parametrize(
    ("name", "place", "theme", "shown"),
    [pytest.param(*scene, id=scene[0], marks=[pytest.mark.nightly] * (scene[0] not in FIRST_TIER)) for scene in SCENES],
)
def test_a_page_looks_as_in_its_picture(browser: Browser, http: Http, name: str, place: str, theme: str, shown: str) -> None:
    with open_at_fixed_time(browser, http, WIDTH, HEIGHT) as page:
        page.evaluate("theme => localStorage.setItem('theme', theme)", theme)
        page.reload()
        page.get_by_role("heading", name="Overview").wait_for()
        go(page, place)
        page.locator(shown).first.wait_for()
        page.wait_for_load_state("networkidle")
        check(browser, page, name)
        if IS_RENEWING and name in ("messages-light", "letters", "pipelines"):
            page.set_viewport_size({"width": 1320, "height": 820})
            page.wait_for_load_state("networkidle")
            (DOCS / f"console-{name.removesuffix('-light')}.png").write_bytes(page.screenshot())


@pytest.mark.nightly
def test_the_first_page_of_an_empty_log_looks_as_in_its_picture(browser: Browser) -> None:
    with serving() as http, open_at_fixed_time(browser, http, WIDTH, HEIGHT) as page:
        page.get_by_text("There are no topics yet.").wait_for()
        page.wait_for_load_state("networkidle")
        check(browser, page, "first-run")


def test_a_picture_that_differs_is_found(browser: Browser, http: Http) -> None:
    with open_at_fixed_time(browser, http, WIDTH, HEIGHT) as page:
        go(page, "#/topics")
        page.locator("tbody tr").first.wait_for()
        before = page.screenshot(style=VARYING)
        page.evaluate("document.querySelector('h1').textContent = 'Topic'")
        page.evaluate("document.querySelector('tbody').style.fontWeight = 'bold'")
        assert difference(browser, before, before) == 0
        assert difference(browser, before, page.screenshot(style=VARYING)) > MOST_DIFFERENT
