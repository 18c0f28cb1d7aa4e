"""The console in a real browser: what people do with it, end to end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import headstream as hs
from headstream.core.model.identifiers import TopicName
from headstream.core.model.polling import OffsetOwner
from headstream.core.model.topology import NewTopic
from tests.behaviour.console.conftest import ORDERS, PATIENCE_MS, STRANGE, find_violations, go, log_in, send
from tests.support.server.http_servers import Http, serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

MANY = 1_000_000
"""More rows than an element can be high, so that the scroll bar stands for more than its pixels."""


def wait(page: Page, text: str) -> None:
    page.get_by_text(text, exact=False).first.wait_for(timeout=PATIENCE_MS)


def test_login_is_refused_with_a_reason_survives_a_reload_and_ends(own_page: Page) -> None:
    own_page.get_by_role("heading", name="Overview").wait_for()
    own_page.reload()
    own_page.get_by_role("heading", name="Overview").wait_for()
    assert own_page.evaluate("document.cookie") == ""  # scripts cannot read the token
    own_page.get_by_role("button", name="Log out").click()
    log_in(own_page, password="wrong")
    own_page.get_by_role("alert").wait_for()
    log_in(own_page)
    own_page.get_by_role("heading", name="Overview").wait_for()


def test_overview_counts_topics_and_draws_plots(page: Page) -> None:
    page.locator("figure.plot canvas").nth(3).wait_for()  # two of the plots begin with the server's first statistics
    assert page.locator("figure.plot").count() == 4
    topics = page.locator(".tile", has_text="Topics")
    topics.locator("strong").wait_for()
    wait(page, "shop/orders")
    page.get_by_role("link", name="billing").wait_for()


def test_a_topic_is_created_and_deleted_only_by_its_name(page: Page, http: Http) -> None:
    go(page, "#/topics")
    page.get_by_role("button", name="Create topic").click()
    page.get_by_label("Name").fill("made/here")
    page.get_by_label("Partitions").and_(page.locator("dialog input")).fill("3")
    page.get_by_role("button", name="Create", exact=True).click()
    page.get_by_role("heading", name="made/here").wait_for()
    assert len(http.dispatcher.broker.topics.get(TopicName.parse("made/here")).partitions) == 3
    page.get_by_role("button", name="Delete").click()
    delete = page.locator("dialog").get_by_role("button", name="Delete")
    assert delete.is_disabled()
    page.locator("dialog input").fill("made/her")
    assert delete.is_disabled()
    page.locator("dialog input").fill("made/here")
    delete.click()
    page.get_by_role("heading", name="Topics", exact=True).wait_for()
    page.get_by_role("link", name="made/here").wait_for(state="detached")
    assert http.dispatcher.broker.topics.find("made", "here") is None


def test_a_refused_change_is_told_in_the_dialog(page: Page) -> None:
    go(page, "#/topics?create=1")
    page.get_by_label("Name").fill("bad.name/x")
    page.get_by_role("button", name="Create", exact=True).click()
    page.locator("dialog").get_by_role("alert").wait_for()


def test_options_of_a_topic_change(page: Page, http: Http) -> None:
    go(page, "#/topics/audit/old")
    page.get_by_role("button", name="Options").click()
    page.get_by_label("Keep messages for").fill("2")
    page.get_by_label("To confirm").fill("audit/old")  # it lets messages be removed
    page.get_by_role("button", name="Change").click()
    page.locator(".tile", has_text="Retention").get_by_text("2 h").wait_for()
    assert http.dispatcher.broker.topics.get(TopicName.parse("audit/old")).retention_us == 7_200_000_000


def test_messages_show_typed_headers_and_payloads_in_three_forms(page: Page) -> None:
    go(page, "#/messages/shop/orders?partition=1&offset=5")
    detail = page.get_by_label("Message at offset 5")
    detail.wait_for()
    rows = detail.locator("table.headers tbody tr")
    assert [rows.nth(number).inner_text().split() for number in range(3)] == [
        ["attempt", "uint8", "1"],
        ["source", "string", "web"],
        ["source", "string", "again"],
    ]
    assert "12345678901234567890" in detail.locator(".json").inner_text()  # a double would lose digits
    detail.get_by_role("button", name="Text").click()
    assert '"order": 5' in detail.locator("pre").inner_text()
    detail.get_by_role("button", name="Hex").click()
    assert detail.locator("pre").inner_text().startswith("000000  7b 22 6f 72")


EDGES = """row => [...document.querySelector(row).children].map((cell) => {
  const {left, right} = cell.getBoundingClientRect();
  return [left, right];
})"""


@pytest.mark.parametrize("topic", ["orders", "strange"])
def test_titles_of_messages_stand_above_their_columns(page: Page, topic: str) -> None:
    for place in (f"#/messages/shop/{topic}", f"#/messages/shop/{topic}?partition=1&offset=0"):
        go(page, place)
        page.locator(".list .row .time").first.wait_for()
        if "offset" in place:
            page.get_by_label("Message at offset 0").wait_for()
        assert page.evaluate(EDGES, ".row.titles") == page.evaluate(EDGES, "#row-0")


def test_keys_move_between_messages_and_rows(page: Page) -> None:
    go(page, "#/messages/shop/orders?partition=1&offset=5")
    page.get_by_label("Message at offset 5").wait_for()
    page.get_by_role("listbox", name="Messages").focus()
    page.keyboard.press("j")
    page.get_by_label("Message at offset 6").wait_for()
    page.keyboard.press("k")
    page.keyboard.press("k")
    page.get_by_label("Message at offset 4").wait_for()
    page.keyboard.press("End")
    page.get_by_label("Message at offset 119").wait_for()
    page.keyboard.press("Escape")
    page.get_by_label("Message at offset 119").wait_for(state="detached")
    go(page, "#/topics")
    page.locator("tbody tr").first.wait_for()
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.type") == "search"
    page.keyboard.type("orders")
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="shop/orders").wait_for()


def test_palette_finds_a_topic_by_a_few_letters(page: Page) -> None:
    page.locator("figure.plot").first.wait_for()
    page.keyboard.press("Control+k")
    page.get_by_role("combobox").fill("shopstrmess")
    page.get_by_role("option", name="shop/strange").first.wait_for()
    page.keyboard.press("Enter")
    page.get_by_role("listbox", name="Messages").wait_for()
    assert "shop/strange" in page.locator(".trail").inner_text()


def test_search_finds_messages_and_says_when_there_are_none(page: Page) -> None:
    go(page, "#/messages/shop/orders?partition=1")
    field = page.get_by_label("Search payloads, keys and headers")
    field.fill('"A77"')
    page.get_by_role("button", name="Search").click()
    wait(page, "1 match")
    page.locator(".list .row").first.click()
    page.get_by_label("Message at offset 77").wait_for()
    page.get_by_label("Search for").select_option("where")
    field.fill("attempt = 3 AND source = 'again'")
    page.get_by_role("button", name="Search").click()
    wait(page, "30 matches")
    page.reload()  # the address has the filter
    wait(page, "30 matches")
    assert field.input_value() == "attempt = 3 AND source = 'again'"
    field.fill("attempt = AND")
    page.get_by_role("button", name="Search").click()
    wait(page, "the filter is invalid")
    page.get_by_label("Search for").select_option("contains")
    field.fill("nowhere to be found")
    page.get_by_role("button", name="Search").click()
    wait(page, "No message contains")
    field.fill("")
    wait(page, "120 offsets")


def test_jumps_go_to_offsets_and_the_newest_message(page: Page) -> None:
    go(page, "#/messages/shop/orders?partition=1")
    page.get_by_label("Go to", exact=True).select_option("last")
    page.get_by_label("Message at offset 119").wait_for()
    page.get_by_label("Go to", exact=True).select_option("offset")
    page.get_by_label("Offset", exact=True).fill("42")
    page.get_by_role("button", name="Go", exact=True).click()
    page.get_by_label("Message at offset 42").wait_for()


def test_live_tail_shows_new_messages_and_pauses(page: Page, http: Http) -> None:
    go(page, "#/messages/audit/old?partition=1")
    page.get_by_role("button", name="Live tail").click()
    send(http, TopicName.parse("audit/old"), 1, hs.Message(payload=b"just now"))
    wait(page, "just now")
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("button", name="Live tail").wait_for()


@pytest.fixture
def many(http: Http) -> None:
    """A topic of very many messages, before the page of a test is loaded."""
    topic = TopicName.parse("shop/many")
    http.dispatcher.broker.topics.create(NewTopic(topic, 1, hs.Limits.WIDE))
    for begin in range(0, MANY, 50_000):
        send(http, topic, 1, *(hs.Message(payload=b"m%d" % number) for number in range(begin, begin + 50_000)))


def test_a_list_of_very_many_messages_has_few_rows_and_reaches_both_ends(many: None, page: Page) -> None:
    go(page, "#/messages/shop/many?partition=1")
    rows = page.locator(".list .row")
    rows.first.wait_for()
    assert rows.count() < 100
    page.get_by_role("listbox", name="Messages").focus()
    page.keyboard.press("End")
    page.get_by_label(f"Message at offset {MANY - 1}").wait_for()
    assert rows.count() < 100
    page.keyboard.press("PageUp")
    page.keyboard.press("Home")
    page.get_by_label("Message at offset 0").wait_for()
    page.keyboard.press("Escape")
    page.get_by_label("Go to", exact=True).select_option("offset")
    for offset in (700_123, 499_999):
        page.get_by_label("Offset", exact=True).fill(str(offset))
        page.get_by_role("button", name="Go", exact=True).click()
        page.get_by_label(f"Message at offset {offset}").wait_for()
        page.locator(".list .row", has_text=f"m{offset}").first.wait_for()  # the rows around it are those of their offsets
        assert rows.count() < 100
    page.get_by_label("Close the message").click()
    page.get_by_role("listbox", name="Messages").evaluate("list => { list.scrollTop = list.scrollHeight / 4 }")
    page.locator(".list .row", has_text="m2").first.wait_for()
    shown = [int(text.replace(",", "")) for text in page.locator(".list .row > .number").all_inner_texts()]
    assert len(shown) > 5
    assert all(200_000 < offset < 300_000 for offset in shown)
    for offset in shown:
        page.locator(".list .row", has_text=f"m{offset}").wait_for()
    assert rows.count() < 100


def test_foreign_text_is_neither_run_nor_able_to_disguise_itself(page: Page) -> None:
    go(page, "#/messages/shop/strange?partition=1&offset=0")
    page.get_by_label("Message at offset 0").wait_for()
    assert page.locator("main img, main script, main iframe").count() == 0
    go(page, "#/messages/shop/strange?partition=1&offset=1")
    wait(page, "it is bad <img")
    assert page.locator("main img").count() == 0
    go(page, "#/messages/shop/strange?partition=1&offset=2")
    detail = page.get_by_label("Message at offset 2")
    detail.wait_for()
    text = detail.locator("pre").inner_text()
    assert "U+202E" in text
    assert "U+200B" in text
    assert "\u202e" not in text
    go(page, "#/messages/shop/strange?partition=1&offset=3")
    pre = page.get_by_label("Message at offset 3").locator("pre")
    pre.wait_for()
    assert pre.inner_text() == "مرحبا بالعالم 👩‍💻"
    assert pre.locator("bdi").evaluate("one => getComputedStyle(one).unicodeBidi") == "isolate"


def test_long_payloads_are_loaded_on_demand_and_saved_as_files(page: Page) -> None:
    go(page, "#/messages/shop/strange?partition=1&offset=6")
    detail = page.get_by_label("Message at offset 6")
    wait(page, "The first 512 B of 97.7 KiB")
    with page.expect_download() as saved:
        detail.get_by_role("button", name="Save").click()
    assert saved.value.suggested_filename.endswith("6.bin")
    assert saved.value.path().read_bytes() == b"long " * 20_000
    detail.get_by_role("button", name="Load all").click()
    detail.get_by_text("The first").wait_for(state="detached")
    assert len(detail.locator("pre").inner_text()) >= 99_999


def test_a_state_is_set_with_a_reason_that_is_shown(page: Page, http: Http) -> None:
    go(page, "#/messages/shop/strange?partition=1&offset=5")
    page.get_by_role("button", name="Set state").click()
    page.locator("dialog select").select_option("unavailable")
    page.get_by_label("Reason").fill("not for everybody")
    page.locator("dialog").get_by_role("button", name="Set state").click()
    wait(page, "not for everybody")
    (change,) = [one for one in http.dispatcher.broker.messages.states(STRANGE, 1) if one.offset == 5]
    assert (change.reason, change.by) == ("not for everybody", "iggy")


def test_a_group_is_moved_after_a_preview(page: Page, http: Http) -> None:
    go(page, "#/groups/shop/orders/billing")
    page.locator(".tile", has_text="Lag").get_by_text("100", exact=True).wait_for()
    page.get_by_role("button", name="Seek").click()
    dialog = page.locator("dialog")
    assert dialog.get_by_role("button", name="Preview first").is_disabled()
    dialog.get_by_label("Continue at").select_option("offset")
    dialog.get_by_role("textbox", name="Offset").fill("50")
    dialog.get_by_role("button", name="Preview", exact=True).click()
    dialog.get_by_text("30 messages will be skipped").wait_for()
    dialog.get_by_role("button", name="Seek", exact=True).click()
    page.locator(".tile", has_text="Lag").get_by_text("70", exact=True).wait_for()
    assert http.dispatcher.broker.offsets.committed(ORDERS, OffsetOwner.group("billing"))[1] == 50


def test_rights_decide_what_a_user_sees(own_page: Page, http: Http) -> None:
    go(own_page, "#/users")
    own_page.get_by_role("button", name="Create user").click()
    own_page.get_by_label("User name").fill("reader")
    own_page.get_by_label("Password").fill("secret")
    own_page.get_by_label("read streams").check()
    own_page.get_by_label("read topics").check()
    own_page.get_by_label("poll messages").check()
    own_page.get_by_role("button", name="Create", exact=True).click()
    own_page.get_by_role("row", name="reader").wait_for()
    own_page.get_by_role("button", name="Log out").click()
    log_in(own_page, "reader", "secret")
    own_page.get_by_role("heading", name="Overview").wait_for()
    pages = own_page.locator("nav.side li").all_inner_texts()
    assert pages == ["Overview", "Topics", "Messages", "Groups", "Dead letters"]
    go(own_page, "#/topics/shop/orders")
    own_page.get_by_role("link", name="Messages").last.wait_for()
    assert own_page.get_by_role("button", name="Delete").count() == 0
    go(own_page, "#/users")
    wait(own_page, "There is no such page.")


def test_a_login_that_ends_leads_back_to_the_login(own_page: Page, http: Http) -> None:
    own_page.get_by_role("heading", name="Overview").wait_for()
    own_page.context.clear_cookies()
    wait(own_page, "Your login has ended")
    own_page.get_by_label("User name").wait_for()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_pages_have_no_serious_accessibility_violations(page: Page, axe: str, theme: str) -> None:
    page.locator("figure.plot").first.wait_for()
    if theme == "dark":
        page.get_by_role("button", name="Dark colours").click()
    found: dict[str, Any] = {"#/": find_violations(page, axe)}
    places = {
        "#/topics": "tbody tr",
        "#/topics/shop/orders": "tbody tr",
        "#/messages/shop/orders?partition=1&offset=5": ".detail",
        "#/messages/shop/strange?partition=1&offset=1": ".story",
        "#/messages/audit/empty": ".empty",
        "#/groups": "tbody tr",
        "#/groups/shop/orders/billing": "tbody tr",
        "#/users": "tbody tr",
        "#/clients": "h2",
        "#/topics?create=1": "dialog[open]",
    }
    for place, shown in places.items():
        go(page, place)
        page.locator(shown).first.wait_for()
        found[place] = find_violations(page, axe)
    assert found == {place: [] for place in ("#/", *places)}


def test_narrow_screens_do_not_scroll_sideways(page: Page) -> None:
    page.set_viewport_size({"width": 360, "height": 700})
    for place, shown in (("#/", ".tiles"), ("#/topics", "tbody tr"), ("#/messages/shop/orders?partition=1&offset=3", ".detail")):
        go(page, place)
        page.locator(shown).first.wait_for()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), place
        assert page.evaluate("document.querySelector('main').scrollWidth <= innerWidth"), place


def test_a_log_without_topics_says_what_to_do_first(browser: Browser) -> None:
    with serving() as http:
        context = browser.new_context()
        opened = context.new_page()
        opened.goto(f"http://{http.host}:{http.port}/console/")
        log_in(opened)
        wait(opened, "There are no topics yet.")
        wait(opened, "headstream topic create")
        http.stop()
        wait(opened, "The server does not answer")
        context.close()
