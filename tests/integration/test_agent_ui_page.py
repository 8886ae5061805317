"""The agent's page in headless Chromium, with 100 programs. TRITON_SCREENSHOTS=DIRECTORY keeps pictures of it."""

import json
import os
import sys
from pathlib import Path

import pytest

from harness.agent import AGENT
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
