"""The agent's page in headless Chromium, with 100 programs. TRITON_SCREENSHOTS=DIRECTORY keeps pictures of it."""

import contextlib
import json
import os
import resource
import select
import socket
import sys
from pathlib import Path

import pytest

from harness.agent import AGENT, read_answer
from harness.process import eventually
from harness.programs import run, service

sys.path.append(str(Path(__file__).parents[1] / "host"))
from browser import Browser  # noqa: E402 (shared with the page of vminfod)

TOKEN = "0123456789abcdef"
NASTY = "</p><script>window.hacked=1</script><img src=x onerror=window.hacked=2>\\033[31m\\033]0;title\\007\\342\\200\\256end"
UNSEEN = r"/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/u"
SHOWN = "[...document.querySelectorAll('#programs tbody tr')].filter((row) => !row.hidden)"


@pytest.fixture(scope="module")
def browser():
    browser = Browser()
    yield browser
    browser.close()


def keep(page, name):
    if "TRITON_SCREENSHOTS" in os.environ:
        page.screenshot(Path(os.environ["TRITON_SCREENSHOTS"]) / f"{name}.png")


def start(place, area, programs):
    (area / "token").write_text(TOKEN)
    (area / "token").chmod(0o644)
    launcher = run(place, programs, "--listen", "127.0.0.1:0", "--agent-path", AGENT, "--ui", "--ui-token-file", area / "token")
    port = int(launcher.wait_for_event("listening")["address"].rsplit(":", 1)[1])
    return launcher, f"http://127.0.0.1:{port}/ui"


def unlock(page, token=TOKEN):
    page.click("#unlock")
    page.wait("document.getElementById('ask').open")
    page.write(token)
    page.press("Enter")


def name_of(number):
    return f"service-{number:03}"


def test_hundred_programs_are_shown_and_commanded(as_pid1, area, browser):
    chatty = {"command": ["sh", "-c", f"i=0; while [ $i -lt 60 ]; do i=$((i+1)); echo line $i; done; printf '{NASTY}\\n'; exec sleep 1000"],
              "output": {"format": "prefix"}}
    programs = {name_of(number): {"command": ["sleep", "1000"]} for number in range(96)}
    programs |= {"chatty": chatty, "broken": {"command": ["sh", "-c", "exit 3"], "restart": "never"}, "once": {"command": ["true"], "oneShot": True},
                 "killed": {"command": ["sh", "-c", "kill -9 $$"], "restart": "never"}}
    launcher, url = start(as_pid1, area, programs)
    page = browser.page()
    page.open(url)
    page.wait("document.body.dataset.link === 'live'")
    page.wait(f"{SHOWN}.length === 101")  # the agent too
    page.wait("document.getElementById('sum').textContent.includes('2 failed')")
    assert page.evaluate("document.getElementById('commands').hidden")
    keep(page, "locked")
    page.click("#unlock")
    page.wait("document.getElementById('ask').open")
    keep(page, "token")
    page.write("wrong-wrong-wrong")
    page.press("Enter")
    page.wait("document.getElementById('note').textContent === 'this is not the token'")
    unlock(page)
    page.wait("isFull && document.getElementById('unlock').textContent === 'Lock'")
    assert page.evaluate("sessionStorage.getItem('token')") == TOKEN
    assert TOKEN not in page.evaluate("location.href")

    page.press("/")
    page.write("chatty")
    page.wait(f"{SHOWN}.length === 1")
    page.press("ArrowDown", "Enter")
    page.wait("document.getElementById('name').textContent === 'chatty'")
    page.wait("document.querySelectorAll('#log p').length === 61")
    assert "\\u{1b}[31m\\u{1b}]0;title\\u{7}\\u{202e}end" in page.text("#log")
    page.evaluate("document.getElementById('filter').value = ''; filter()")
    keep(page, "details")
    pid = page.evaluate("rows.get(open).process.pid")
    page.click("[data-command=restart]")
    page.wait("document.getElementById('ask').open")
    page.press("Enter")
    page.wait(f"Number.isInteger(rows.get(open).process.pid) && rows.get(open).process.pid !== {pid}")
    page.press("Escape")
    page.wait("document.getElementById('details').hidden")
    page.press("e")
    page.wait("document.querySelectorAll('#events li').length >= 2")
    keep(page, "events")
    page.press("c")
    page.wait("document.getElementById('versions').textContent.includes('chatty')")
    launcher.replace({**programs, "later": {"command": ["sleep", "1000"]}})
    page.wait("document.getElementById('version').options.length === 2 && document.getElementById('versions').textContent.includes('later')")
    keep(page, "configuration")
    check(page)
    page.close()
    for name, width, is_dark in (("phone", 390, False), ("phone-dark", 390, True), ("dark", 1440, True)):
        page = browser.page(width=width, height=800, is_phone=width < 1000, is_dark=is_dark)
        page.open(url)
        page.wait(f"document.body.dataset.link === 'live' && {SHOWN}.length > 100")
        keep(page, name)
        unlock(page)
        page.wait("isFull")
        (page.tap if width < 1000 else page.click)("#programs tbody tr:nth-child(2) button")
        page.wait("!document.getElementById('details').hidden")
        page.wait("document.getElementById('log').children.length > 0")
        keep(page, f"{name}-details")
        check(page)
        page.close()


def check(page):
    """Nothing of a program's has become markup, a script or an invisible character, and nothing sticks out."""
    assert page.problems == []
    assert page.evaluate("window.hacked") is None
    assert page.evaluate("document.querySelectorAll('script').length") == 1
    assert page.evaluate("document.querySelectorAll('img, b b, tbody b').length") == 0
    assert page.evaluate(f"{UNSEEN}.test(document.body.innerText)") is False
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_keys_and_a_program_that_goes(as_pid1, area, browser):
    programs = {name: {"command": ["sleep", "1000"]} for name in ("one", "three", "two")}
    launcher, url = start(as_pid1, area, programs)
    page = browser.page()
    page.open(url)
    page.wait(f"document.body.dataset.link === 'live' && {SHOWN}.length === 4")
    unlock(page)
    page.wait("isFull")
    names = page.evaluate(f"{SHOWN}.map((row) => row.querySelector('button').textContent)")
    page.press("/", "ArrowDown", "Enter")
    page.wait(f"document.getElementById('name').textContent === '{names[0]}'")
    for key, expected in (("ArrowDown", names[1]), ("ArrowDown", names[2]), ("ArrowUp", names[1])):
        page.press(key)
        page.wait(f"document.getElementById('name').textContent === '{expected}'")
    page.press("/")
    page.write("tw")
    page.wait(f"{SHOWN}.length === 1")
    page.press("Escape")
    page.wait(f"{SHOWN}.length === 4 && !document.getElementById('details').hidden")
    page.press("Escape")  # in a filter that is empty it does what it does everywhere
    page.wait("document.getElementById('details').hidden")

    page.evaluate("openDetails([...rows.values()].find((entry) => entry.title === 'two').key, true)")
    launcher.replace({name: programs[name] for name in ("one", "three")})
    page.wait("document.getElementById('facts').textContent === 'Statenot there any more' && document.getElementById('commands').hidden")
    assert page.text("#name") == "two"
    page.press("Escape")
    page.wait("document.getElementById('details').hidden && document.activeElement === document.getElementById('filter')")
    check(page)
    page.close()


def test_on_a_phone_what_is_behind_the_details_is_out_of_reach(as_pid1, area, browser):
    _, url = start(as_pid1, area, {"web": {"command": ["sleep", "1000"]}})
    page = browser.page(width=390, height=800, is_phone=True)
    page.open(url)
    page.wait(f"document.body.dataset.link === 'live' && {SHOWN}.length === 2")
    page.tap("#programs tbody tr button")
    page.wait("!document.getElementById('details').hidden")
    assert page.evaluate("['nav', '#unlock', '#programs', 'footer'].every((one) => document.querySelector(one).inert)")
    page.evaluate("tell('Not done: a reason')")
    assert page.evaluate("""(() => { const note = document.getElementById('note'), box = note.getBoundingClientRect();
                                     return document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2) === note; })()""")
    page.tap("#close")
    page.wait("document.getElementById('details').hidden")
    assert page.evaluate("[...document.querySelectorAll('*')].every((one) => !one.inert)")
    check(page)
    page.close()


def readable(sockets):
    poll = select.poll()
    for each in sockets:
        poll.register(each, select.POLLIN)
    ready = {number for number, _ in poll.poll(0)}
    return [each for each in sockets if each.fileno() in ready]


def test_one_of_a_thousand_viewers_does_not_ask_without_a_pause(as_pid1, area, browser):
    """Only so many may wait for events; who comes later is answered at once, and must not ask again at once."""
    launcher, url = start(as_pid1, area, {"web": {"command": ["sleep", "1000"]}})
    launcher.wait_for_event("process-started", program="web")
    address = ("127.0.0.1", int(url.split(":")[2].split("/")[0]))

    def question(body):
        text = json.dumps(body)
        return (f"POST /ui/events HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(text)}\r\n\r\n{text}").encode()

    # Under a limit of 1,024 descriptors the agent has fewer connections than that, and silent ones make way.
    count = 1000 if resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 2000 else 400
    with contextlib.ExitStack() as stack:
        viewers = [stack.enter_context(socket.create_connection(address, 30)) for _ in range(count)]
        after, latest, asking = 0, -1, viewers
        while latest != after:  # until those that wait know all events
            after = max(after, latest)
            for viewer in asking:
                viewer.sendall(question({"after": after}))
            asking = eventually(lambda: len(found := readable(viewers)) >= count - 64 and found, "all are answered but those that wait")
            answers = [read_answer(viewer) for viewer in asking]
            assert {status for status, _ in answers} <= {200, 503}, "503: too many asked in one moment"
            latest = max(json.loads(text)["next"] for status, text in answers if status == 200)
        page = browser.page()
        page.open(url)
        page.wait(f"document.body.dataset.link === 'live' && {SHOWN}.length === 2")
        unlock(page)
        page.wait("isFull")
        asked = "performance.getEntriesByType('resource').filter((entry) => entry.name.endsWith('/ui/events'))"
        page.wait(f"{asked}.length >= 5")
        starts = page.evaluate(f"{asked}.map((entry) => entry.startTime)")
        assert min(later - one for one, later in zip(starts, starts[1:])) >= 240, "one has waited for what follows closely"
        assert starts[4] - starts[1] >= 3 * 1990, starts
        pid = page.evaluate("[...rows.values()].find((entry) => entry.title === 'web').process.pid")
        page.evaluate("run({ command: 'restart', program: 'web' })")
        page.wait(f"![null, undefined, {pid}].includes([...rows.values()].find((entry) => entry.title === 'web').process.pid)")
        check(page)
        page.close()


def test_launcher_without_a_token_shows_the_status_alone(as_pid1, browser):
    launcher = run(as_pid1, {"web": service("web")}, "--listen", "127.0.0.1:0", "--agent-path", AGENT, "--ui")
    port = int(launcher.wait_for_event("listening")["address"].rsplit(":", 1)[1])
    page = browser.page()
    page.open(f"http://127.0.0.1:{port}/ui")
    page.wait(f"{SHOWN}.length === 2 && document.getElementById('unlock').hidden")
    page.press("c")
    page.wait("document.querySelector('#configuration .empty').textContent.startsWith('Not shown: only the status is shown here')")
    check(page)
    page.close()
