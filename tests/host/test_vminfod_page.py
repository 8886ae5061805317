"""The live page of vminfod, in headless Chromium. TRITON_SCREENSHOTS=DIRECTORY keeps pictures of it."""

import base64
import hashlib
import json
import os
import re
import shutil
import tempfile
from pathlib import Path

import pytest
from browser import Browser
from vminfod_place import Daemon

PAGE = Path(__file__).parents[2] / "programs/vminfod/page/index.html"
MACHINES = 1000
NASTY = {
    "script": "<script>window.hacked = 1</script>",
    "image": "<img src=x onerror='window.hacked = 2'>",
    "breakout": "\"'></span><svg/onload=window.hacked=3>{{7*7}}${7*7}",
    "override": "photo\u202egnp.exe",
    "marks": "\u200f\u2066\u200b\u00ad\ufeffend",
    "escapes": "\x1b[31mred\x1b]0;title\x07\x9b1m",
    "lines": "one\ntwo\u2028three\r\tfour",
    "long": "x" * 10_000,
    "tall": "Z" + "\u0334\u0351\u0343\u035d" * 200 + "algo",
    "prototype": "__proto__",
    "lone": "\ud83d half",
}
# Characters that nobody sees or that turn others round; line ends are the layout's own.
UNSEEN = r"/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/u"
VISIBLE_ROWS = "[...document.querySelectorAll('#grid .item')].filter((row) => !row.hidden)"


def is_row(alias):
    return f"{VISIBLE_ROWS}.some((row) => row.querySelector('.alias').textContent === {json.dumps(alias)})"


@pytest.fixture(scope="module")
def browser():
    browser = Browser()
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def area():
    place = tempfile.mkdtemp(prefix="triton-page.")
    yield Path(place)
    shutil.rmtree(place)


@pytest.fixture(scope="module")
def many(area):
    """Of many machines."""
    (area / "many").mkdir()
    daemon = Daemon(area / "many", MACHINES)
    yield daemon
    daemon.close()


@pytest.fixture
def own(area, request):
    """Of a few machines, for a test that ends it."""
    (area / request.node.name).mkdir()
    daemon = Daemon(area / request.node.name, 5)
    yield daemon
    daemon.close()


@pytest.fixture
def opened(browser):
    """Opens pages; each must have met no exception and nothing that its policy forbids."""
    pages = []

    def open_page(daemon, **kind):
        page = browser.page(**kind)
        pages.append(page)
        page.open(daemon.url)
        page.wait("document.getElementById('link-text').textContent === 'Live'")
        page.wait(f"{VISIBLE_ROWS}.length > 0")
        return page

    yield open_page
    for page in pages:
        problems = list(page.problems)
        page.close()
        assert problems == []


def keep(page, name):
    if "TRITON_SCREENSHOTS" in os.environ:
        page.screenshot(Path(os.environ["TRITON_SCREENSHOTS"]) / f"{name}.png")


# The file.


def element(text, name):
    (found,) = re.findall(f"<{name}>(.*?)</{name}>", text, re.DOTALL)
    return found


def test_it_is_one_small_file_that_makes_no_markup_of_texts():
    text = PAGE.read_text()
    assert len(text.encode()) <= 60_000
    element(text, "style"), element(text, "script")
    forbidden = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|\beval\b|Function\(|srcdoc"
    assert re.findall(forbidden, text) == []
    # inline styles and handlers, which the policy refuses, and whatever would be loaded
    assert re.findall(r"<[^>]* (?:style|on\w+|src|href)=|@import|url\(|https?://", text) == []


def test_policy_allows_its_one_script_and_its_one_style(many):
    status, headers, body = many.get("/")
    assert (status, body) == (200, PAGE.read_bytes())
    policy = dict(part.strip().split(" ", 1) for part in headers["Content-Security-Policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["connect-src"] == "'self'"
    for directive, name in (("script-src", "script"), ("style-src", "style")):
        digest = hashlib.sha256(element(PAGE.read_text(), name).encode()).digest()
        assert policy[directive] == f"'sha256-{base64.b64encode(digest).decode()}'"


# Many machines.


def test_thousand_machines_are_a_few_rows_that_follow_changes(many, opened):
    page = opened(many)
    page.wait(f"document.querySelector('#states button').textContent === '{MACHINES:,} machines'")
    assert page.evaluate("document.querySelectorAll('#grid .item').length") < 100
    assert page.evaluate("document.getElementById('grid').getAttribute('aria-rowcount')") == str(MACHINES + 1)
    keep(page, "wide")

    page.evaluate("document.querySelector('#grid .scroll').scrollTop = 1e9")
    page.wait(is_row("web996"))
    assert page.evaluate("document.querySelectorAll('#grid .item').length") < 100

    changed = many.files.object(996, alias="zebra", tags={})
    many.files.write(changed)
    page.wait(is_row("zebra"))
    page.wait("document.querySelector('#events .item .rest').textContent === 'zebra'")
    assert page.text("#events .item .line.dim") == 'alias: "web996" → "zebra"'
    many.files.path(changed["uuid"]).unlink()
    page.wait(f"!({is_row('zebra')}) && document.querySelector('#states button').textContent === '{MACHINES - 1:,} machines'")
    many.files.write(many.files.object(996))
    page.wait(is_row("web996"))


def test_columns_sort_and_words_filter(many, opened):
    page = opened(many)
    first = f"{VISIBLE_ROWS}.find((row) => row.getAttribute('aria-rowindex') === '2')"
    page.wait(f"{first}.querySelector('.alias').textContent === 'build4'")
    page.click("#head [data-id=ram] button")
    page.wait("document.querySelector('#head [data-id=ram]').getAttribute('aria-sort') === 'descending'")
    assert page.evaluate(f"{first}.querySelector('.ram').textContent") == "4.0 GiB"
    page.click("#head [data-id=ram] button")
    page.wait("document.querySelector('#head [data-id=ram]').getAttribute('aria-sort') === 'ascending'")
    assert page.evaluate(f"{first}.querySelector('.ram').textContent") == "256 MiB"

    page.press("/")
    page.write("10.0.1. nics.0.interface=eth0 -queue")
    page.wait("document.querySelector('#states button').textContent === '214 machines'")
    page.press("Escape")
    page.wait(f"document.querySelector('#states button').textContent === '{MACHINES:,} machines'")
    page.click("#states button[data-state=stopped]")
    page.wait("document.querySelector('#states [data-state=stopped]').getAttribute('aria-pressed') === 'true'")


# Keys.


def test_everything_is_reached_by_keys_and_the_focus_is_seen(many, opened):
    page = opened(many)
    focus = "(document.activeElement.id || document.activeElement.parentNode.dataset.id || document.activeElement.dataset.state)"
    met = []
    while len(met) < 5:
        page.press("Tab")
        if not met and page.evaluate("document.activeElement.localName") == "summary":
            continue  # on a busy machine there are notes on the daemon above all
        met.append(page.evaluate(focus))
        style = page.evaluate("(({outlineStyle, outlineWidth}) => `${outlineStyle} ${outlineWidth}`)(getComputedStyle(document.activeElement))")
        assert style == "solid 2px", met
    assert met[0] == "filter" and met[3:] == ["grid", "alias"], met

    page.press("/")
    page.write("cache")
    page.press("Enter", "ArrowDown", "Enter")
    page.wait("document.activeElement.id === 'name' && document.activeElement.textContent === 'cache8'")
    assert "10.0.0.8/16" in page.text("#content")
    keep(page, "details")
    page.press("Escape")
    page.wait("document.activeElement.id === 'grid' && document.getElementById('details').hidden")
    page.press("End", "Home", "PageDown", "ArrowUp")
    assert page.evaluate("document.getElementById(document.activeElement.getAttribute('aria-activedescendant')).classList.contains('current')")
    page.press("h")
    page.wait("document.activeElement.id === 'history'")
    page.press("e")
    page.wait("document.activeElement.id === 'events'")
    page.press("m")
    page.wait("document.activeElement.id === 'grid'")


# Small and dark.


def test_phone_has_one_column_and_room_for_fingers(many, opened):
    page = opened(many, width=390, height=844, is_phone=True)
    page.wait(is_row("build4"))
    fits = "document.documentElement.scrollWidth <= innerWidth && [...document.querySelectorAll('body *')].every((one) => one.closest('#states, .scroll') || one.getBoundingClientRect().right <= innerWidth + 1)"
    assert page.evaluate(fits)
    small = "[...document.querySelectorAll('button, input, select')].filter((one) => one.offsetParent && one.offsetHeight < 44).map((one) => one.outerHTML)"
    assert page.evaluate(small) == []
    keep(page, "phone")
    page.tap("#grid .item")
    page.wait("document.getElementById('details').getBoundingClientRect().width === innerWidth")
    page.wait("document.getElementById('content').textContent.includes('Host name')")
    assert page.evaluate(fits)
    keep(page, "phone-details")
    page.evaluate("history.back()")
    page.wait("document.getElementById('details').hidden")
    page.tap("nav [data-view=history]")
    page.wait("document.body.dataset.view === 'history' && document.getElementById('history').offsetParent !== null")
    assert page.evaluate("document.getElementById('grid').offsetParent === null")


def test_it_is_dark_where_that_is_preferred(many, opened):
    colors = {}
    for is_dark in (False, True):
        page = opened(many, is_dark=is_dark)
        colors[is_dark] = page.evaluate("getComputedStyle(document.body).backgroundColor")
        keep(page, "dark" if is_dark else "light")
    assert colors == {False: "rgb(246, 247, 249)", True: "rgb(15, 19, 24)"}


# What others write.


def test_hostile_texts_stay_texts(own, opened):
    own.files.write_tags(own.made[0]["uuid"], {f"{name} {text[:300]}": text for name, text in NASTY.items() if name != "lone"})
    for number, text in enumerate(NASTY.values()):
        if not re.search("[\ud800-\udfff]", text):
            own.files.write(own.files.object(100 + number, alias=text[:255], hostname="h"))
    (own.files.machines / f"{own.made[1]['uuid']}.json").write_text("{<script>window.hacked = 4</script>")
    page = opened(own)
    page.wait("document.querySelector('#states [data-state=unreadable]')")
    # What vminfod would not let through, in each place that shows a text of others.
    for number, text in enumerate(NASTY.values()):
        vm = {"uuid": text if number % 2 else f"0000000{number}", "alias": text, "state": text, "image_uuid": text, "failure": text, "error": text,
              "nics": [{"interface": text, "ip": text, "mac": text, "nic_tag": text}, text, None], "tags": {text: text}, "hostname": text,
              "ram": text, "boot_timestamp": text, "package_name": {"a": [text]}, "pid": text,
              "launch_status": {"programs": [{"name": text, "processes": [{"state": text, "number": text, "last_exit": {"error": text}}, 7]}, text]}}
        record = {"type": "modify", "seq": 2**52 + number, "uuid": vm["uuid"], "date": text, "vm": vm,
                  "changes": [{"path": text, "action": text, "from": text, "to": {text: text}}, None, 3]}
        page.evaluate(f"take({{data: {json.dumps(json.dumps(record))}}})")
        page.wait("stale.size === 0")
        page.evaluate(f"openDetails(keyOf({json.dumps(vm)})); document.querySelector('#content details').open = true")
        page.wait("document.querySelector('#content pre').textContent.length > 100")
        assert page.evaluate(f"{UNSEEN}.test(document.body.innerText)") is False, text
    for row in own.made[:2]:
        page.evaluate(f"openDetails({json.dumps(row['uuid'])})")
        page.wait("stale.size === 0")
        assert page.evaluate(f"{UNSEEN}.test(document.body.innerText)") is False
    keep(page, "hostile")
    assert page.evaluate("window.hacked") is None
    assert page.evaluate("document.querySelectorAll('script').length") == 1
    assert page.evaluate("document.querySelectorAll('img, svg, iframe').length") == 0
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


# The connection.


def test_limits_of_the_daemon_are_told(own, opened):
    page = opened(own)
    status = {"sources": [{"name": "files", "working": True, "note": "5 watches"}, {"name": "zfs", "working": False, "note": "no <b>zpool</b>"}],
              "refreshErrors": [{"err": "old"}, {"err": "cannot open \u202e"}]}
    page.wait("statusAt > 0 && !isLooking")
    page.evaluate(f"isLooking = true; takeStatus({json.dumps(status)})")  # the daemon's own is asked for no more
    page.click("#notes summary")
    page.wait("document.getElementById('notes').open")
    assert page.text("#notes").split("\n") == ["2 notes on vminfod", "zfs: no <b>zpool</b>", "Not all could be read: cannot open \\u{202e}"]
    page.evaluate("takeStatus({})")
    assert page.evaluate("document.getElementById('notes').hidden")


def test_killed_daemon_is_told_and_met_again_without_a_reload(own, opened):
    page = opened(own)
    page.evaluate("window.sameDocument = true")
    own.kill()
    page.wait("document.body.dataset.link === 'lost'")
    assert re.fullmatch(r"Connection lost\. What you see is of \d\d:\d\d:\d\d\.", page.text("#link-text"))
    assert page.evaluate("document.getElementById('retry').offsetParent !== null")
    keep(page, "lost")
    own.files.write(own.files.object(0, alias="meanwhile"))
    own.files.path(own.made[1]["uuid"]).unlink()
    own.start()
    page.wait("document.body.dataset.link === 'live'")
    page.wait(is_row("meanwhile"))
    page.wait(f"!({is_row('db1')})")
    own.files.write(own.files.object(2, alias="afterwards"))
    page.wait(is_row("afterwards"))
    assert page.evaluate("window.sameDocument") is True


def test_page_that_fell_behind_starts_over(own, opened):
    page = opened(own)
    page.evaluate("machines.delete(keyOf([...machines.values()][0].vm)); lastSequence = 2 ** 40; connect()")
    page.wait("[...document.querySelectorAll('#events .item')].some((one) => one.textContent.includes('All machines were loaded again.'))")
    page.wait("document.querySelector('#states button').textContent === '5 machines'")
    own.files.write(own.files.object(3, alias="later"))
    page.wait(is_row("later"))


def test_refused_stream_is_tried_again(own, opened):
    page = opened(own)
    page.evaluate("""window.RealSource = EventSource; window.EventSource = class extends RealSource { constructor() { super("vms/nothing"); } }; connect()""")
    page.wait("document.body.dataset.link === 'lost' && /Next try in \\d+ s\\./.test(document.getElementById('next').textContent)")
    page.evaluate("window.EventSource = RealSource")
    page.click("#retry")
    page.wait("document.body.dataset.link === 'live'")
