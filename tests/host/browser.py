"""Headless Chromium over the DevTools protocol: messages ended by NUL on descriptors 3 (to it) and 4 (from it)."""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

UNPACKED = Path(__file__).parents[2] / "build/packages/usr/bin"
PATIENCE = 60
PROGRAMS = ("chromium-headless-shell", "chromium")

KEYS = {
    "Enter": {"code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"},
    "Escape": {"code": "Escape", "windowsVirtualKeyCode": 27},
    "Tab": {"code": "Tab", "windowsVirtualKeyCode": 9},
    "ArrowDown": {"code": "ArrowDown", "windowsVirtualKeyCode": 40},
    "ArrowUp": {"code": "ArrowUp", "windowsVirtualKeyCode": 38},
    "ArrowRight": {"code": "ArrowRight", "windowsVirtualKeyCode": 39},
    "PageDown": {"code": "PageDown", "windowsVirtualKeyCode": 34},
    "Home": {"code": "Home", "windowsVirtualKeyCode": 36},
    "End": {"code": "End", "windowsVirtualKeyCode": 35},
}


def find_program():
    """Skips where there is none; in CI that is a failure."""
    for name in PROGRAMS:
        found = shutil.which(name, path=f"{os.environ['PATH']}:{UNPACKED}")
        if found:
            return found
    assert not os.environ.get("CI"), "CI has no Chromium: ./dev installs it"
    pytest.skip("chromium-headless-shell is not installed (Debian package chromium-headless-shell)")


def above(descriptor):
    """Out of the way of 3 and 4, which it is copied to in the end."""
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 50)
    os.close(descriptor)
    return moved


class Browser:
    """One process; each page is a context of its own, without what another has kept."""

    def __init__(self, enter=()):
        """`enter`: a command before it, such as one that enters a network."""
        program = find_program()
        self.profile = tempfile.mkdtemp(prefix="triton-browser.")
        self.log = open(f"{self.profile}/log", "w+")
        commands, self.write = (above(end) for end in os.pipe())
        self.read, answers = (above(end) for end in os.pipe())
        # Its own sandbox needs user namespaces, which containers that CI runs in may not have; it loads our page only.
        words = [*enter, program, "--headless", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                 "--no-first-run", "--disable-extensions", "--disable-background-networking", "--disable-component-update",
                 "--proxy-server=direct://", f"--user-data-dir={self.profile}/data", "about:blank"]
        self.process = subprocess.Popen(
            ["bash", "-c", 'exec 3<&"$1" 4>&"$2"; shift 2; exec "$@"', "bash", str(commands), str(answers), *words],
            pass_fds=(commands, answers), stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, start_new_session=True)
        os.close(commands)
        os.close(answers)
        self.number = 0
        self.rest = b""
        self.pages = {}

    def call(self, method, session=None, **parameters):
        self.number += 1
        number = self.number
        message = {"id": number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self.write, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + PATIENCE
        while True:
            answer = self.receive(until, method)
            if answer.get("id") == number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            page = self.pages.get(answer.get("sessionId"))
            if page and "method" in answer:
                page.told(answer["method"], answer["params"])

    def receive(self, until, what):
        while b"\0" not in self.rest:
            ready, _, _ = select.select([self.read], [], [], max(0, until - time.monotonic()))
            piece = os.read(self.read, 1 << 20) if ready else b""
            if not piece:
                self.log.seek(0)
                raise AssertionError(f"{'no answer from' if not ready else 'the end of'} Chromium at {what}: {self.log.read()[-2000:]}")
            self.rest += piece
        message, _, self.rest = self.rest.partition(b"\0")
        return json.loads(message)

    def page(self, width=1440, height=900, is_phone=False, is_dark=False):
        return Page(self, width, height, is_phone, is_dark)

    def close(self):
        try:
            self.call("Browser.close")
        except (AssertionError, OSError):
            self.process.kill()
        self.process.wait(PATIENCE)
        self.log.close()
        os.close(self.write)
        os.close(self.read)
        shutil.rmtree(self.profile, ignore_errors=True)


class Page:
    def __init__(self, browser, width, height, is_phone, is_dark):
        self.browser = browser
        self.problems = []  # exceptions, and what the policy has refused
        self.context = browser.call("Target.createBrowserContext")["browserContextId"]
        self.target = browser.call("Target.createTarget", url="about:blank", browserContextId=self.context)["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=self.target, flatten=True)["sessionId"]
        browser.pages[self.session] = self
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=2 if is_phone else 1, mobile=is_phone)
        self.call("Emulation.setTouchEmulationEnabled", enabled=is_phone)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}])

    def call(self, method, **parameters):
        return self.browser.call(method, self.session, **parameters)

    def told(self, method, parameters):
        if method == "Runtime.exceptionThrown":
            self.problems.append(parameters["exceptionDetails"].get("exception", {}).get("description", str(parameters)))
        elif method == "Log.entryAdded" and parameters["entry"]["source"] != "network":  # a server that is away is not the page's fault
            self.problems.append(parameters["entry"]["text"])
        elif method == "Page.javascriptDialogOpening":
            self.problems.append(f"a dialog: {parameters['message']}")
            self.call("Page.handleJavaScriptDialog", accept=False)

    def open(self, url):
        failed = self.call("Page.navigate", url=url).get("errorText")
        assert not failed, f"{url}: {failed}"

    def evaluate(self, expression):
        done = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in done, f"{expression}: {done['exceptionDetails']}"
        return done["result"].get("value")

    def wait(self, expression, seconds=PATIENCE / 2):
        """Until the expression is true, which is looked at in each frame."""
        outcome = self.evaluate(f"""new Promise((resolve) => {{
            const until = performance.now() + {seconds * 1000};
            const look = () => {{
                let found = false;
                try {{ found = ({expression}); }} catch (error) {{ found = false; }}
                if (found) resolve(found === true ? true : found);
                else if (performance.now() > until) resolve(null);
                else requestAnimationFrame(look);
            }};
            look();
        }})""")
        assert outcome is not None, f"this did not come true: {expression}\n{self.text()}"
        return outcome

    def text(self, selector="body"):
        return self.evaluate(f"document.querySelector({json.dumps(selector)}).innerText")

    def texts(self, selector):
        return self.evaluate(f"[...document.querySelectorAll({json.dumps(selector)})].filter((one) => one.offsetParent).map((one) => one.innerText)")

    def press(self, *keys):
        for key in keys:
            event = {"key": key, **KEYS.get(key, {"text": key, "code": "Slash" if key == "/" else f"Key{key.upper()}"})}
            self.call("Input.dispatchKeyEvent", type="keyDown", **event)
            self.call("Input.dispatchKeyEvent", type="keyUp", **{name: value for name, value in event.items() if name != "text"})

    def write(self, text):
        self.call("Input.insertText", text=text)

    def middle(self, selector):
        place = self.evaluate(f"(({{x, y, width, height}}) => ({{x: x + width / 2, y: y + height / 2}}))(document.querySelector({json.dumps(selector)}).getBoundingClientRect())")
        return {"x": place["x"], "y": place["y"]}

    def click(self, selector):
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **self.middle(selector))

    def tap(self, selector):
        self.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[self.middle(selector)])
        self.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def screenshot(self, path):
        Path(path).write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def close(self):
        self.browser.call("Target.disposeBrowserContext", browserContextId=self.context)
        del self.browser.pages[self.session]
