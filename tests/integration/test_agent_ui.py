"""The agent's page: who gets what from it, and what it has the launcher do."""

import json
import re
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness.agent import AGENT, Agent, Authority, run_agent
from harness.process import eventually, run_plainly
from harness.programs import run, service

TOKEN = "0123456789abcdef"
UI = ("--listen", "127.0.0.1:0", "--agent-path", AGENT, "--ui")


@pytest.fixture
def start():
    """Starts agents and ends them with the test."""
    running = []

    def start_one(*arguments, **how):
        running.append(Agent(*arguments, **how))
        return running[-1]
    yield start_one
    for agent in running:
        agent.close()


@pytest.fixture
def token_file(area):
    path = area / "token"
    path.write_text(TOKEN + "\n")
    path.chmod(0o644)
    return path


class Reached(Agent):
    """An agent that a launcher has started; it is not ours to end."""

    def __init__(self, launcher):
        self.port = int(launcher.wait_for_event("listening")["address"].rsplit(":", 1)[1])


def ask(agent, path, body=None, token=TOKEN, **fields):
    headers = {name.replace("_", "-"): value for name, value in fields.items()}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    return agent.post(path, json.dumps(body or {}), headers=headers)


# Who gets in.


def test_page_is_one_file_with_a_policy_and_there_with_ui_alone(start):
    assert start().get("/ui") == (404, "Path not found\n")
    status, body, headers = start("--ui").request("GET", "/ui")
    assert status == 200 and body.startswith("<!doctype html>") and body.endswith("</html>\n")
    assert headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'sha256-")
    assert headers["X-Content-Type-Options"] == "nosniff" and headers["Cache-Control"] == "no-store"


def test_page_makes_no_markup_of_texts(start):
    text = start("--ui").get("/ui")[1]
    assert len(text.encode()) <= 40_000
    assert re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|\beval\b|Function\(|srcdoc", text) == []
    assert re.findall(r"<[^>]* (?:style|on\w+|src|href)=|@import|url\(|https?://", text) == []


@pytest.mark.parametrize("path", ["session", "events", "configuration", "logs", "command"])
def test_refusals(start, token_file, path):
    path = f"/ui/{path}"
    agent = start("--ui", "--ui-token-file", token_file)
    assert agent.request("GET", path)[::2][0] == 405
    assert ask(agent, path, token=None) == (401, "this needs the token\n")
    assert ask(agent, path, token=TOKEN[:-1]) == (401, "this is not the token\n")
    assert ask(agent, path, Origin="http://evil.example") == (403, "Origin is not this server\n")
    assert ask(agent, path, Host="evil.example") == (403, "Host is not an address, localhost, this pod or a name of --allow-host\n")
    assert agent.post(f"{path}?token={TOKEN}", "{}") == (401, "this needs the token\n"), "never in URLs"
    only = "only the status is shown here: there is neither --ui-token-file nor --tls-ca-file\n"
    assert ask(start("--ui"), path) == (403, only)
    assert ask(start(), path) == (404, "Path not found\n")


def test_named_hosts_are_served(start, token_file):
    agent = start("--ui", "--ui-token-file", token_file, "--ui-host", "pod.example")
    assert ask(agent, "/ui/session", Host="pod.example:80", Origin="http://pod.example:80") == (200, "OK\n")


def test_without_a_launcher_there_is_nothing_to_command(start, token_file):
    agent = start("--ui", "--ui-token-file", token_file)
    assert ask(agent, "/ui/command", {"command": "reload"}) == (501, "cannot ask the launcher: there is none\n")


def test_client_certificates_let_in_where_there_is_no_token(start, area):
    authority = Authority(area / "ca")
    certificate, key = authority.issue("server", subject="/CN=server", alternatives="IP:127.0.0.1")
    agent = start("--ui", "--tls-certificate-file", certificate, "--tls-key-file", key, "--tls-ca-file", authority.certificate)
    assert agent.post("/ui/session", "{}", context=authority.client())[0] == 401
    known = authority.client(authority.issue("client"))
    assert agent.post("/ui/session", "{}", context=known) == (200, "OK\n")
    evil = agent.post("/ui/session", "{}", context=known, headers={"Origin": "https://evil.example"})
    assert evil == (403, "Origin is not this server\n"), "a browser shows the certificate for any page"


# Another token.

OTHER = "another-token-of-more-than-16"


def replace(path, text):
    fresh = path.with_name("fresh")
    fresh.write_text(text)
    fresh.chmod(0o644)
    fresh.rename(path)


def test_a_new_token_counts_from_when_it_is_there_and_the_old_one_no_more(start, token_file):
    agent = start("--ui", "--ui-token-file", token_file)
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(ask, agent, "/ui/events", {"after": 0})
        eventually(lambda: agent.metric("triton_agent_open_connections") >= 2, "it waits")  # and the one that asks
        replace(token_file, OTHER)
        agent.wait_for_event("ui-token-loaded")
        assert waiting.result() == (401, "this is not the token\n"), "who waited was let in by the old one"
    assert ask(agent, "/ui/session") == (401, "this is not the token\n")
    assert ask(agent, "/ui/session", token=OTHER) == (200, "OK\n")
    token_file.write_text(TOKEN)  # in place
    agent.wait_for_event("ui-token-loaded")
    assert ask(agent, "/ui/session") == (200, "OK\n")


@pytest.mark.parametrize("text, why", [
    ("short", "the token has fewer than 16 characters"), ("", "the token has fewer than 16 characters"),
    ("x" * 2000, "the token has more than 1024 characters"),
    ("a token with blanks in it", "the token has characters other than printable ASCII without blanks")])
def test_what_is_no_token_leaves_the_old_one(start, token_file, text, why):
    agent = start("--ui", "--ui-token-file", token_file)
    replace(token_file, text)
    assert agent.wait_for_event("ui-token-rejected")["message"].endswith(f"the old one stays: {token_file}: {why}")
    assert ask(agent, "/ui/session") == (200, "OK\n")
    agent.process.send_signal(signal.SIGHUP)  # nothing has changed: what comes now, comes of it
    agent.wait_for_event("ui-token-rejected")
    token_file.unlink()
    token_file.mkdir()
    agent.wait_for_event("ui-token-rejected")
    assert ask(agent, "/ui/session") == (200, "OK\n")


def test_a_mounted_secret_brings_a_new_token(start, area):
    secret = area / "secret"
    for name, token in (("..1", TOKEN), ("..2", OTHER)):
        (secret / name).mkdir(parents=True)
        (secret / name / "token").write_text(token)
    (secret / "..data").symlink_to("..1")
    (secret / "token").symlink_to("..data/token")
    agent = start("--ui", "--ui-token-file", secret / "token")
    (secret / "..tmp").symlink_to("..2")
    (secret / "..tmp").rename(secret / "..data")
    agent.wait_for_event("ui-token-loaded")
    assert ask(agent, "/ui/session", token=OTHER) == (200, "OK\n")
    assert ask(agent, "/ui/session")[0] == 401


@pytest.mark.parametrize("arguments, reason", [
    (["--listen", "127.0.0.1:0", "--ui-token-file", "/x"], "--ui-token-file needs --ui"),
    (["--probe-listen", "127.0.0.1:0", "--ui"], "--ui needs --listen"),
    (["--listen", "127.0.0.1:0", "--ui", "--ui-token-file", "/nothing"], "open /nothing: No such file or directory")])
def test_options_that_nothing_would_come_of(arguments, reason):
    done = run_agent(*arguments)
    assert done.returncode != 0 and reason in done.stdout + done.stderr


@pytest.mark.parametrize("arguments, reason", [
    (["--ui"], "--ui needs --listen"), (["--ui-token-file", "/x"], "--ui-token-file needs --ui")])
def test_launcher_says_what_an_option_needs(arguments, reason):
    done = run_plainly(*arguments)
    assert done.returncode == 2 and reason in done.stderr


# What it shows and does.


def test_it_shows_and_commands_with_the_token(as_pid1, area, token_file):
    launcher = run(as_pid1, {"web": service("web"), "say": {"command": ["sh", "-c", "echo hello; exec sleep 1000"], "output": {"format": "prefix"}}}, *UI, "--ui-token-file", token_file)
    agent = Reached(launcher)
    launcher.wait_up(tag="web")
    pid = lambda: next(program["processes"][0] for program in json.loads(agent.get("/v1/status")[1])["programs"] if program["name"] == "web")["pid"]
    first = eventually(pid, "web runs")
    assert ask(agent, "/ui/command", {"command": "restart", "program": "web"}) == (200, "OK\n")
    eventually(lambda: pid() not in (None, first), "web was started again")
    assert ask(agent, "/ui/command", {"command": "stop", "program": "nothing"})[0] == 404
    (line,) = eventually(lambda: json.loads(ask(agent, "/ui/logs", {"program": "say"})[1])["lines"], "a line is kept")
    assert (line["text"], line["stream"]) == ("hello", "stdout")
    assert json.loads(ask(agent, "/ui/logs", {"program": "say", "after": line["sequence"]})[1])["lines"] == []
    (one,) = json.loads(ask(agent, "/ui/configuration")[1])["configurations"]
    assert json.loads(one["text"])["programs"].keys() == {"web", "say"}
    answer = json.loads(ask(agent, "/ui/events", {"after": 0})[1])
    assert answer["next"] >= 1 and not answer["missed"]
    launcher.wait_for_event("ui-command", message="restart web")


def test_it_says_whom_else_a_command_concerns(as_pid1, token_file):
    """The page does not start or stop other programs by itself, and does not wait for what nobody starts."""
    held = lambda tag, *requires: service(tag) | {"autoStart": False, "requires": list(requires)}
    launcher = run(as_pid1, {"db": held("db"), "api": held("api", "db"), "web": held("web", "api"), "free": service("free")},
                   *UI, "--ui-token-file", token_file)
    agent = Reached(launcher)
    launcher.wait_up(tag="free")
    command = lambda name, program: ask(agent, "/ui/command", {"command": name, "program": program})
    for name in ("start", "restart"):
        assert command(name, "web") == (403, "it requires programs that do not run, start them first: db, api\n")
    for program in ("db", "api", "web"):
        assert command("start", program) == (200, "OK\n")
        launcher.wait_up(tag=program)
    assert command("stop", "db") == (403, "programs that run require it, stop them first: web, api\n")
    assert command("restart", "db") == (200, "OK\n")
    assert command("start", "nothing") == (404, "no such program: nothing\n")


def test_agent_may_command_only_where_somebody_may_tell_it(as_pid1, area):
    """The launcher gives no right that --ui alone does not need; what a token of the agent's own option would do, too."""
    (area / "token").write_text(TOKEN)
    (area / "token").chmod(0o644)
    launcher = run(as_pid1, {"web": service("web")}, *UI, "--agent-option", f"ui-token-file={area}/token")
    agent = Reached(launcher)
    launcher.wait_up(tag="web")
    for path, body in (("/ui/command", {"command": "stop", "program": "web"}), ("/ui/logs", {"program": "web"})):
        status, text = ask(agent, path, body)
        assert status == 403 and "PermissionDenied" in text
