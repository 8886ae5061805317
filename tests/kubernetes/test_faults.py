"""The API server at its worst. Supervision never waits for it, and the reports are right again when it is."""

import json
import shutil
import time

import pytest

from harness.agent import AGENT, Authority
from harness.process import Exit, eventually
from rig import CONFIGURATION, ISOLATE, POKE, probe_configuration

SERVE = ("say:up", "trap", "until:15")
SOON = ("--restart-delay", "1ms", "--restart-max-delay", "5ms")
RECOVERY = 60  # seconds: what was refused is tried again after 10 s, what the server failed at after 30 s at most


def swap(pod, count, first=0):
    """Changes the configuration that often, each time until it is active; returns the last text and the seconds of
    each change."""
    seconds = []
    for number in range(first, first + count):
        began = time.monotonic()
        text = pod.load(*SERVE, f"say:{number}")
        seconds.append(time.monotonic() - began)
    return text, seconds


def kill_the_process(pod):
    """Ends the process; another must be there at once."""
    line = pod.launcher.wait_up()
    pod.launcher.signal_inside(line["pid"], 9)
    pod.launcher.wait_for_event("process-exited", pid=line["pid"])


def test_a_server_that_is_not_there_yet(cluster, pod):
    cluster.kill_api()
    pod.start(*SOON)
    kill_the_process(pod)
    text, _ = swap(pod, 3)
    assert pod.wait_reporter("failing")["detail"]
    cluster.start_api()
    pod.wait_reported(text, RECOVERY)
    pod.wait_reporter("ok", RECOVERY)


def test_it_dies_and_returns_during_reloads(cluster, reporting):
    """Ten configurations before, ten while it is away, ten while it starts: the last one wins."""
    swap(reporting, 10)
    cluster.kill_api()
    swap(reporting, 10, first=10)
    cluster.api.start()
    text, _ = swap(reporting, 10, first=20)
    cluster.wait_until_ready()
    reporting.wait_reported(text, RECOVERY)
    reporting.wait_reporter("ok", RECOVERY)
    assert len(reporting.launcher.events_named("kubernetes-failing")) <= 3  # told once for each part, not at each try
    assert reporting.launcher.is_alive(reporting.launcher.wait_up()["pid"])


def test_it_hangs(cluster, reporting):
    """It accepts and never answers: nothing else is slower for that, the stop included."""
    kill_the_process(reporting)
    cluster.freeze_api()
    text, seconds = swap(reporting, 20)
    assert sorted(seconds)[len(seconds) // 2] < 0.5, seconds
    kill_the_process(reporting)
    assert reporting.launcher.stop() == Exit(code=0)
    reporting.start()
    reporting.launcher.wait_up()
    cluster.thaw_api()
    reporting.wait_reported(text, RECOVERY)


def test_it_hangs_for_a_while(cluster, reporting):
    cluster.freeze_api()
    text, _ = swap(reporting, 5)
    assert reporting.wait_reporter("failing", RECOVERY)["detail"]
    cluster.thaw_api()
    reporting.wait_reported(text, RECOVERY)
    reporting.annotate(isolate_process_group="true")
    eventually(lambda: reporting.status()["isolated"], "the watch works again", RECOVERY)


@pytest.mark.parametrize("verbs, missing, told", [
    ({"pods": ["watch"], "events": ["create", "patch"]}, "patch", "pods"),
    ({"pods": ["patch"], "events": ["create", "patch"]}, "watch", "pods"),
    ({"pods": ["watch", "patch"], "events": ["patch"]}, "create", "events")], ids=["patch", "watch", "create events"])
def test_a_verb_is_missing(namespace, make_pod, verbs, missing, told):
    """One line names the verb, all else works, and when the verb is there, so is what needed it."""
    namespace.set_verbs(**verbs)
    pod = make_pod()
    wait_for_role(pod, missing, told, allowed=False)
    text = pod.configure(*SERVE)
    pod.start()
    record = pod.launcher.wait_for_event("permission-missing")
    assert f'verb "{missing}" on resource "{told}" in namespace "{namespace.name}"' in record["message"]
    assert f'verb "{missing}"' in pod.wait_reporter("failing")["detail"]
    if (missing, told) != ("patch", "pods"):
        pod.wait_reported(text)
    if told == "pods":
        event = pod.wait_event("MissingPermission")
        assert event["type"] == "Warning" and f'verb "{missing}"' in event["message"]
    swap(pod, 3)
    assert pod.launcher.events_named("permission-missing") == [record]
    namespace.set_verbs(pods=["watch", "patch"], events=["create", "patch"])
    pod.wait_reporter("ok", RECOVERY)
    text, _ = swap(pod, 1, first=3)
    pod.wait_reported(text)
    pod.wait_event("ConfigurationLoaded")


def wait_for_role(pod, verb, resource, allowed):
    """The API server takes notice of a changed role by a watch of its own."""
    user = f"system:serviceaccount:{pod.namespace.name}:servers"
    answer = "yes" if allowed else "no"
    eventually(lambda: pod.cluster.run("auth", "can-i", verb, resource, "--as", user,
                                       namespace=pod.namespace.name).stdout.strip() == answer, f"{answer} to {verb}")


def test_rights_that_are_taken_away_while_it_runs(namespace, reporting):
    namespace.set_verbs(pods=["watch"])
    wait_for_role(reporting, "patch", "pods", allowed=False)
    text, _ = swap(reporting, 2)
    reporting.launcher.wait_for_event("permission-missing")
    assert reporting.annotations()[CONFIGURATION] == reporting.first
    namespace.set_verbs(pods=["watch", "patch"], events=["create", "patch"])
    reporting.wait_reported(text, RECOVERY)


def test_a_pod_that_is_made_again(reporting):
    """Under the same name, with nothing of what the old one said: a new token, our annotations, its own wishes."""
    reporting.annotate(isolate_process_group="true")
    eventually(lambda: reporting.status()["isolated"], "isolated")
    before = reporting.object()["metadata"]["uid"]
    reporting.delete()
    reporting.create()
    found = reporting.wait_reported(reporting.first, RECOVERY)["metadata"]
    assert found["uid"] != before and ISOLATE not in found["annotations"]
    eventually(lambda: not reporting.status()["isolated"], "no longer isolated", RECOVERY)
    text, _ = swap(reporting, 1)
    reporting.wait_reported(text, RECOVERY)
    event = reporting.wait_event("ConfigurationLoaded", lambda event: event["involvedObject"]["uid"] == found["uid"],
                                 RECOVERY)
    assert event["involvedObject"]["name"] == reporting.name


def test_a_pod_that_is_deleted_and_stays_away(reporting):
    """Nothing to report to: that is said once, and nothing else suffers."""
    reporting.delete()
    reporting.wait_reporter("failing", RECOVERY)
    swap(reporting, 3)
    assert reporting.launcher.stop() == Exit(code=0)


def test_a_token_that_is_worth_nothing(cluster, reporting):
    """401 from the next answer on; a new file is enough."""
    reporting.rotate_token("nonsense")
    cluster.restart_api()  # the connections, and what it knows of tokens
    text, _ = swap(reporting, 2)
    eventually(lambda: "401" in reporting.reporter().get("detail", ""), "the detail says 401", RECOVERY)
    reporting.rotate_token()
    reporting.wait_reported(text, RECOVERY)
    reporting.wait_reporter("ok", RECOVERY)


def test_a_token_that_is_replaced(cluster, reporting):
    """As the kubelet does it: the old one still is good, the new one is used from the next request on."""
    def user(number):
        """Who has written the first, or the second time; the server tells of it a moment later."""
        written = eventually(lambda: reporting.namespace.requests("patch", "pods")[number:], "the audit")
        return written[0]["user"]["extra"]

    old = user(0)
    reporting.rotate_token()
    text, _ = swap(reporting, 1)
    reporting.wait_reported(text)
    new = user(1)
    assert old["authentication.kubernetes.io/credential-id"] != new["authentication.kubernetes.io/credential-id"]


def test_a_service_account_that_comes_late(pod):
    account = pod.account.directory / "token"
    account.unlink()
    text = pod.configure(*SERVE)
    pod.start("--kubernetes", "on")
    pod.wait_reporter("failing")
    account.symlink_to("..data/token")
    pod.wait_reported(text, RECOVERY)


def test_a_version_that_is_gone(cluster, reporting):
    """The server has forgotten what the watch would resume from: 410. It begins anew and misses nothing."""
    cluster.kill_api()
    cluster.forget_the_past()
    cluster.start_api()
    reporting.annotate(isolate_process_group="true")
    eventually(lambda: reporting.status()["isolated"], "the watch goes on", RECOVERY)
    reporting.wait_reporter("ok", RECOVERY)


def test_a_poke_while_nobody_listens(cluster, reporting):
    """What was written while the watch was torn is heard when it is there again."""
    second = int(reporting.status()["configuration_time"]) + 60
    cluster.freeze_api()
    agent = reporting.launcher.events_named("process-started", program="triton-agent")[-1]
    reporting.launcher.signal_inside(agent["pid"], 9)
    cluster.thaw_api()
    reporting.annotate(outdated_config_map_seen=second)
    reporting.launcher.wait_for_event("reload-requested", timeout=RECOVERY)
    assert reporting.annotations()[POKE] == str(second)


def stamp(offset):
    """A time of a certificate, so many seconds from now."""
    return time.strftime("%Y%m%d%H%M%SZ", time.gmtime(time.time() + offset))


@pytest.mark.parametrize("what, dates", [("not yet valid", (3600, 7200)), ("expired", (-7200, -3600))])
def test_clocks_that_disagree_about_the_certificate(cluster, reporting, fresh_name, what, dates):
    """Ours against that of the server: refused, in words that say so, until the certificate is good by our clock."""
    certificate, key = cluster.serving
    good = certificate.read_bytes(), key.read_bytes()
    names = "IP:127.0.0.1,IP:::1"
    skewed = cluster.authority.issue(fresh_name("skewed"), "/CN=kube-apiserver", names, tuple(map(stamp, dates)))
    try:
        cluster.kill_api()
        certificate.write_bytes(skewed[0].read_bytes())
        key.write_bytes(skewed[1].read_bytes())
        cluster.start_api()
        text, _ = swap(reporting, 2)
        eventually(lambda: what in reporting.reporter().get("detail", ""), f"the detail says {what}", RECOVERY)
    finally:
        cluster.kill_api()
        certificate.write_bytes(good[0])
        key.write_bytes(good[1])
        cluster.start_api()
    reporting.wait_reported(text, RECOVERY)


def test_another_authority_is_not_trusted(cluster, pod, area):
    """Nothing is sent to a server that cannot show who it is; least of all the token."""
    other = Authority(area / "other", subject="/CN=somebody else")
    text = pod.configure(*SERVE)
    token = (pod.account.directory / "token").read_text()
    pod.account.write(token=token, namespace=pod.namespace.name, ca__crt=other.certificate.read_text())
    pod.start()
    eventually(lambda: "certificate" in pod.reporter().get("detail", ""), "the detail names the certificate")
    assert pod.namespace.requests(stage=None) == []
    pod.rotate_token()
    pod.wait_reported(text, RECOVERY)


def test_an_agent_that_is_killed_again_and_again(reporting):
    """Its restarts are as slow as those of any program that fails, and what runs does not notice."""
    up = reporting.launcher.wait_up()
    agent = reporting.launcher.wait_for_event("process-started", program="triton-agent")
    for _ in range(3):
        reporting.launcher.signal_inside(agent["pid"], 9)
        agent = reporting.launcher.wait_for_event("process-started", program="triton-agent")
    text = reporting.configure_text(json.dumps(probe_configuration(*SERVE, "say:after")))
    reporting.wait_reported(text, RECOVERY)
    assert reporting.launcher.is_alive(up["pid"])


def test_a_hung_agent(reporting):
    """It takes nothing from the launcher any more. Configurations load, processes restart, the stop is in time."""
    agent, = reporting.launcher.events_named("process-started", program="triton-agent")
    reporting.launcher.signal_inside(agent["pid"], 19)
    kill_the_process(reporting)
    _, seconds = swap(reporting, 50)
    assert max(seconds) < 5, seconds
    assert reporting.launcher.stop(timeout=40) == Exit(code=0)


def test_ctl_tells_of_an_agent_that_does_not_answer(reporting):
    """It was well when it was heard of last, and cannot say anything else now."""
    agent, = reporting.launcher.events_named("process-started", program="triton-agent")
    reporting.wait_reporter("ok")
    reporting.launcher.signal_inside(agent["pid"], 19)
    reporting.load(*SERVE, "say:again")
    assert reporting.wait_reporter("failing", RECOVERY)["detail"] == "the agent does not answer"
    reporting.launcher.signal_inside(agent["pid"], 18)
    reporting.wait_reporter("ok")


def test_ctl_tells_of_an_agent_that_cannot_come_back(pod):
    program = pod.area / "agent"
    shutil.copy(AGENT, program)
    pod.start("--agent-path", program)
    agent = pod.launcher.wait_for_event("process-started", program="triton-agent")
    pod.wait_reporter("ok")
    program.unlink()
    pod.launcher.signal_inside(agent["pid"], 9)
    assert pod.wait_reporter("failing")["detail"] == "the agent does not run"
