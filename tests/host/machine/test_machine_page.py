"""vminfod's page of a host whose machines run: what happens inside them is seen."""

import json

import pytest
from browser import Browser
from machine_place import configure, new_uuid, payload

SLEEP = ["/usr/bin/busybox", "sleep", "100000"]
PROGRAMS = {
    "server": {"command": SLEEP},
    "worker": {"command": SLEEP, "count": 2},
    "broken": {"command": ["/usr/bin/busybox", "sh", "-c", "exit 3"]},
}
ROWS = "[...document.querySelectorAll('#grid .item')].filter((row) => !row.hidden)"


@pytest.fixture
def page(host):
    """In the host's own network, where the page is served on loopback."""
    configure(host, info={"listen": "127.0.0.1:9090"})
    host.run("systemctl", "restart", "vminfod", check=True)
    browser = Browser(enter=("nsenter", "-t", str(host.leader), "-n"))
    page = browser.page()
    page.open("http://127.0.0.1:9090/")
    page.wait("document.getElementById('link-text').textContent === 'Live'")
    yield page
    problems = list(page.problems)
    page.close()
    browser.close()
    configure(host)
    host.run("systemctl", "restart", "vminfod", check=True)
    assert problems == []


def shows(selector, text):
    """The page itself says it, not a picture of it: whatever is in a hidden element does not count."""
    return f"[...document.querySelectorAll('{selector}')].some((one) => one.innerText.includes({json.dumps(text)}))"


def process(name, words):
    return f"[...document.querySelectorAll('#content tr')].some((row) => row.innerText.startsWith({json.dumps(name)}) && row.innerText.includes({json.dumps(words)}))"


def test_what_runs_inside_is_seen(host, vmadm, tiny, page):
    uuid = new_uuid()
    vmadm.ok("create", payload=payload(tiny, uuid=uuid, alias="web", customer_metadata={"password": "sesame"},
                                       launch={"programs": PROGRAMS}))
    page.wait(f"{ROWS}.some((row) => row.querySelector('.alias').textContent === 'web' && row.innerText.includes('running'))")
    page.evaluate(f"{ROWS}[0].click()")
    page.wait(process("server 1", "up"))
    page.wait(process("worker 2", "up"))
    page.wait(process("broken 1", "code 3"))
    page.wait(shows("#content", "of a processor"))
    status = json.loads(vmadm.ok("get", uuid))["launch_status"]
    worker = next(one for one in status["programs"] if one["name"] == "worker")["processes"][0]
    vmadm.ok("exec", uuid, "/usr/bin/busybox", "kill", "-KILL", str(worker["pid"]))
    page.wait(process("worker 1", "SIGKILL"))
    assert "sesame" not in page.evaluate("document.documentElement.outerHTML")
    vmadm.ok("stop", uuid)
    page.wait(f"{ROWS}[0].innerText.includes('stopped')")
    page.wait(f"!{process('server 1', 'up')}")
    vmadm.ok("start", uuid)
    page.wait(process("server 1", "up"))
    vmadm.ok("delete", uuid)
    page.wait(f"{ROWS}.length === 0")
