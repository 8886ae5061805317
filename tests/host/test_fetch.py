"""The fetcher against servers that do what servers do: cut, stall, lie, redirect, ask for credentials."""

import contextlib
import gzip
import os
import random
import signal
import sqlite3
import ssl
import subprocess
import time
from pathlib import Path

import pytest
from content_place import needs_root, place  # noqa: F401 (fixture)
from fault_server import FaultServer, digest_of

pytestmark = needs_root

MEGABYTE = 1 << 20
SMALL = random.Random(1).randbytes(100_000)
LARGE = random.Random(2).randbytes(12 * MEGABYTE + 12_345)
RANGES = {"range_bytes": MEGABYTE, "parallel_from": 2 * MEGABYTE}


@pytest.fixture
def server():
    with FaultServer() as started:
        yield started


def of(content, **words):
    return {"digest": digest_of(content), "size": len(content), **words}


def assert_stored(place, blob, content):
    assert blob.get("digest") == digest_of(content), blob
    assert place.content(blob["digest"]) == content
    assert place.ingests() == []


def assert_failed(place, result, kind, text):
    assert (result.get("error"), result.get("text")) == (kind, text)
    assert place.blobs() == []


# What works.


def test_a_small_blob_comes_in_one_request(place, server):
    server.file("/blob", SMALL)
    assert_stored(place, place.fetch(url=server.url("/blob?signature=secret"), **of(SMALL)), SMALL)
    assert len(server.requests) == 1
    assert server.headers("Range") == [None]
    assert place.run("list")[0]["source"] == server.url("/blob")


def test_a_large_blob_comes_in_closed_ranges_side_by_side(place, server):
    open_now, most = 0, 0

    def serve(request):
        nonlocal open_now, most
        open_now += 1
        most = max(most, open_now)
        request.serve(LARGE, pause=0.005)
        open_now -= 1

    server.on("/blob", serve)
    assert_stored(place, place.fetch(url=server.url("/blob"), **of(LARGE), **RANGES), LARGE)
    assert 2 <= most <= 4
    assert sorted(server.headers("Range")) == sorted(
        f"bytes={at}-{min(at + MEGABYTE, len(LARGE)) - 1}" for at in range(0, len(LARGE), MEGABYTE)
    )
    assert server.sent == len(LARGE)


@pytest.mark.parametrize("has_length", [True, False])
def test_what_is_not_known_beforehand_is_found_out(place, server, has_length):
    def serve(request):
        if has_length:
            return request.send(200, SMALL, ETag='"x"')
        request.begin(200, None, Connection="close")
        request.body(SMALL)
        request.close_connection = True

    server.on("/blob", serve)
    assert_stored(place, place.fetch(url=server.url("/blob")), SMALL)


def test_an_empty_blob_is_a_blob(place, server):
    server.file("/blob", b"")
    assert_stored(place, place.fetch(url=server.url("/blob"), **of(b"")), b"")
    assert_stored(place, place.fetch(url=server.url("/blob")), b"")


def test_what_is_there_is_not_fetched(place, server):
    server.file("/blob", SMALL)
    for _ in range(2):
        place.fetch(url=server.url("/blob"), **of(SMALL))
    assert len(server.requests) == 1


def test_many_blobs_come_side_by_side(place, server):
    contents = [bytes([i]) * (50_000 + i) for i in range(12)]
    for content in contents:
        server.file("/" + digest_of(content), content, pause=0.01)
    results = place.run("fetch", url=server.url("/"), each=1, digest=[digest_of(content) for content in contents])
    assert [blob["digest"] for blob in results] == [digest_of(content) for content in contents]
    assert len(place.blobs()) == len(contents)


def test_more_follow_when_the_first_are_there(place, server):
    """Three come at a time. With these in the store nothing was under way, and the others waited for ever."""
    contents = [bytes([i]) * 50_000 for i in range(8)]
    for content in contents:
        server.file("/" + digest_of(content), content)
    digests = [digest_of(content) for content in contents]
    for known in (digests[:6], digests):
        results = place.run("fetch", url=server.url("/"), each=1, digest=known)
        assert [blob["digest"] for blob in results] == known
    assert len(server.requests) == len(contents)


def test_half_of_a_tree_outlives_a_reboot_and_is_not_fetched_twice(place, server):
    """A lease ends with the boot; a reference comes with the row of the blob, and stays."""
    contents = [bytes([i]) * 50_000 for i in range(4)]
    digests = [digest_of(content) for content in contents]
    for content in contents[:2]:
        server.file("/" + digest_of(content), content)
    failed = place.run("fetch", url=server.url("/"), each=1, digest=digests, kept_by="tree", attempts=1)
    assert failed[-1]["error"] == "notFound"
    with contextlib.closing(sqlite3.connect(place.store / "content.db")) as database:
        assert database.execute("UPDATE blobs SET unclaimed_boot = 'earlier', unclaimed_at = 0").rowcount == 2
        database.execute("UPDATE leases SET boot = 'earlier'")
        database.commit()
    assert place.run("gc", ingest_grace=0) == []
    asked = len(server.requests)
    for content in contents[2:]:
        server.file("/" + digest_of(content), content)
    results = place.run("fetch", url=server.url("/"), each=1, digest=digests, kept_by="tree")
    assert [blob["digest"] for blob in results] == digests
    assert len(server.requests) == asked + 2


def test_two_processes_download_one_blob_once(place, server):
    server.file("/blob", LARGE, pause=0.003)
    both = [place.start("fetch", url=server.url("/blob"), **of(LARGE), **RANGES) for _ in range(2)]
    for blob in [place.finish(process)[-1] for process in both]:
        assert_stored(place, blob, LARGE)
    assert server.sent == len(LARGE)


def test_names_are_resolved_within_the_sandbox(place, server):
    server.file("/blob", SMALL)
    assert_stored(place, place.fetch(url=server.url("/blob", "localhost"), **of(SMALL)), SMALL)


def test_progress_tells_phases_bytes_and_rate(place, server):
    server.file("/blob", LARGE, pause=0.01)
    lines = place.run("fetch", url=server.url("/blob"), progress=1, **of(LARGE), **RANGES)
    phases = [line["phase"] for line in lines[:-1]]
    assert sorted(set(phases), key=phases.index) == ["connecting", "downloading", "verifying", "stored"]
    amounts = [line["bytes"] for line in lines[:-1]]
    assert amounts == sorted(amounts) and amounts[-1] == len(LARGE)
    assert any(line["rate"] > 0 for line in lines[:-1])


def test_a_bandwidth_limit_holds(place, server):
    server.file("/blob", LARGE[: 2 * MEGABYTE])
    began = time.monotonic()
    place.fetch(url=server.url("/blob"), rate=MEGABYTE, **of(LARGE[: 2 * MEGABYTE]))
    assert time.monotonic() - began > 1


# What breaks and is mended.


def test_cut_transfers_go_on_where_they_were(place, server):
    server.file("/blob", LARGE, most=700_000)
    assert_stored(place, place.fetch(url=server.url("/blob"), **of(LARGE), **RANGES), LARGE)
    assert server.sent <= len(LARGE) + 4 * 128 * 1024


def test_a_server_that_gives_all_instead_of_ranges_gives_it_once(place, server):
    server.on("/blob", lambda request: request.send(200, LARGE))
    assert_stored(place, place.fetch(url=server.url("/blob"), **of(LARGE), **RANGES), LARGE)
    assert len(server.requests) == 1


def test_a_server_that_stops_knowing_ranges_is_asked_for_the_rest_in_one(place, server):
    def serve(request):
        if len(server.requests) <= 2:
            return request.serve(LARGE)
        request.send(200, LARGE)

    server.on("/blob", serve)
    assert_stored(place, place.fetch(url=server.url("/blob"), **of(LARGE), **RANGES), LARGE)
    wholes = [headers for _, headers in server.requests[2:]]
    assert len(wholes) <= 5


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_what_passes_is_tried_again(place, server, status):
    def serve(request):
        if len(server.requests) < 3:
            return request.send(status, b"later", Retry_After=0)
        request.serve(SMALL)

    server.on("/blob", serve)
    assert_stored(place, place.fetch(url=server.url("/blob"), **of(SMALL)), SMALL)
    assert len(server.requests) == 3


def test_retry_after_is_kept_to(place, server):
    def serve(request):
        return request.send(429, Retry_After=1) if len(server.requests) < 2 else request.serve(SMALL)

    server.on("/blob", serve)
    began = time.monotonic()
    assert_stored(place, place.fetch(url=server.url("/blob"), **of(SMALL)), SMALL)
    assert time.monotonic() - began >= 1


def test_a_server_that_wants_an_hour_is_not_waited_for(place, server):
    server.on("/blob", lambda request: request.send(503, Retry_After=3600))
    result = place.fetch(url=server.url("/blob"), **of(SMALL))
    assert_failed(place, result, "unavailable", f"cannot fetch {server.url('/blob')}: {server.url('/blob')} answers 503")
    assert len(server.requests) == 1


def test_mirrors_stand_in_for_each_other(place, server):
    server.file("/good", SMALL)
    server.on("/bad", lambda request: request.send(200, SMALL[::-1]))
    with FaultServer() as gone:
        dead = gone.url("/blob")
    for first in (dead, server.url("/missing"), server.url("/bad")):
        place.run("gc")
        assert_stored(place, place.fetch(url=[first, server.url("/good")], **of(SMALL)), SMALL)


def test_mirrors_stand_in_for_a_server_with_another_size(place, server):
    server.file("/good", LARGE)
    server.file("/long", LARGE + b"more")
    server.file("/short", LARGE[:-4])
    for wrong in ("/long", "/short"):
        place.run("gc")
        assert_stored(place, place.fetch(url=[server.url(wrong), server.url("/good")], **of(LARGE)), LARGE)
    # What has landed is kept.
    place.run("gc")
    server.file("/cut", LARGE, most=700_000)
    place.fetch(url=server.url("/cut"), attempts=1, streams=1, **of(LARGE), **RANGES)
    assert place.ingests() != []
    before = server.sent
    assert_stored(place, place.fetch(url=[server.url("/short"), server.url("/good")], **of(LARGE), **RANGES), LARGE)
    assert server.sent - before < len(LARGE)


@pytest.mark.parametrize("known", [True, False])
def test_a_verifier_that_is_killed_says_nothing_about_the_bytes(place, server, known):
    server.file("/blob", LARGE, pause=0.02)
    process = place.start("fetch", url=server.url("/blob"), **(of(LARGE) if known else {}), **RANGES)
    wait_until(lambda: server.sent > MEGABYTE)
    for child in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
        if "triton-verify" in Path(f"/proc/{child}/cmdline").read_text():
            os.kill(int(child), signal.SIGKILL)
    assert_stored(place, place.finish(process)[-1], LARGE)
    assert not known or server.sent < 1.9 * len(LARGE)


def test_a_changed_file_is_fetched_anew(place, server):
    old = LARGE[::-1]
    server.file("/blob", old, etag='"old"', most=700_000)
    place.fetch(url=server.url("/blob"), attempts=1, streams=1, **of(LARGE), **RANGES)
    assert place.ingests() != []
    server.file("/blob", LARGE, etag='"new"')
    assert_stored(place, place.fetch(url=server.url("/blob"), **of(LARGE), **RANGES), LARGE)


def test_a_file_that_has_several_entity_tags_is_fetched(place, server):
    """Servers behind one name need not agree in them; the digest tells."""
    answers = iter(range(1000))
    server.on("/blob", lambda request: request.serve(LARGE, etag=f'"{next(answers)}"'))
    assert_stored(place, place.fetch(url=server.url("/blob"), **of(LARGE), **RANGES), LARGE)
    assert server.sent < 2.2 * len(LARGE)


def test_bytes_of_an_earlier_time_that_are_wrong_are_thrown_away_once(place, server):
    server.file("/blob", LARGE[::-1], etag="", most=700_000)
    place.fetch(url=server.url("/blob"), attempts=1, streams=1, **of(LARGE), **RANGES)
    assert place.ingests() != []
    server.file("/blob", LARGE, etag="")
    assert_stored(place, place.fetch(url=server.url("/blob"), **of(LARGE), **RANGES), LARGE)
    assert server.sent < 2.2 * len(LARGE)


def wait_until(condition):
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_after_a_kill_at_nine_tenths_little_comes_again(place, server, how):
    content = random.Random(3).randbytes(60 * MEGABYTE)
    # So slow that nothing waits in the kernel, which would hold megabytes of what was sent for who has no processor.
    server.file("/blob", content, pause=0.02)
    process = place.start("fetch", url=server.url("/blob"), **of(content), range_bytes=4 * MEGABYTE)
    wait_until(lambda: server.sent >= 0.9 * len(content))
    process.send_signal(how)
    output, _ = process.communicate()
    if how == signal.SIGINT:
        assert '{"error":"refused","text":"cancelled"}' in output
    time.sleep(0.2)  # what the server has handed to the kernel counts as sent before
    before = server.sent
    assert place.blobs() == []
    server.file("/blob", content)
    assert_stored(place, place.fetch(url=server.url("/blob"), **of(content)), content)
    assert server.sent - before <= 0.1 * len(content) + 4 * MEGABYTE


# What cannot be mended.


@pytest.mark.parametrize(
    ("status", "kind"), [(204, "invalid"), (304, "invalid"), (401, "denied"), (403, "denied"), (404, "notFound"), (410, "notFound"), (400, "invalid"), (418, "invalid")]
)
def test_refusals_are_told_at_once(place, server, status, kind):
    server.on("/blob", lambda request: request.send(status, b"x" * 1000))
    result = place.fetch(url=server.url("/blob"), **of(SMALL))
    reason = (
        f"127.0.0.1:{server.port} wants credentials, and there are none for it" if status == 401 else f"{server.url('/blob')} answers {status}"
    )
    assert_failed(place, result, kind, f"cannot fetch {server.url('/blob')}: {reason}")
    assert len(server.requests) == 1
    assert place.ingests() == []


def test_a_server_that_never_recovers_is_given_up(place, server):
    server.on("/blob", lambda request: request.send(500))
    result = place.fetch(url=server.url("/blob"), attempts=3, **of(SMALL))
    assert_failed(place, result, "unavailable", f"cannot fetch {server.url('/blob')}: {server.url('/blob')} answers 500")
    assert len(server.requests) == 3


def test_a_download_of_unknown_size_that_always_breaks_is_given_up(place, server):
    """None of it is kept, however much has come."""

    def serve(request):
        request.begin(200, None, Transfer_Encoding="chunked")
        request.wfile.write(b"%x\r\n" % MEGABYTE + LARGE[:MEGABYTE] + b"\r\n")
        request.close_connection = True  # in order, so that all of it arrives, and before the last chunk

    server.on("/blob", serve)
    result = place.fetch(url=server.url("/blob"), attempts=3)
    assert result["error"] == "unavailable"
    assert len(server.requests) == 3


def test_a_silent_server_is_given_up(place, server):
    def stall(request):
        request.begin(200, len(SMALL))
        request.body(SMALL[:1000])
        request.wfile.flush()
        time.sleep(40)

    server.on("/blob", stall)
    began = time.monotonic()
    result = place.fetch(url=server.url("/blob"), attempts=1, stall=1000, **of(SMALL))
    assert time.monotonic() - began < 30  # curl looks at the mean of five seconds
    assert result["error"] == "timeout"
    assert "Operation too slow" in result["text"]


def test_a_server_that_drips_is_given_up(place, server):
    def drip(request):
        request.begin(200, len(SMALL))
        for byte in SMALL[:40]:
            request.wfile.write(bytes([byte]))
            request.wfile.flush()
            time.sleep(0.1)

    server.on("/blob", drip)
    assert place.fetch(url=server.url("/blob"), attempts=1, stall=1000, **of(SMALL))["error"] == "timeout"


@pytest.mark.parametrize("content", [SMALL, LARGE], ids=["small", "large"])
def test_a_wrong_digest_with_right_headers_is_found(place, server, content):
    wrong = content[:-1] + bytes([content[-1] ^ 1])
    server.on("/blob", lambda request: request.serve(wrong, etag=f'"{digest_of(content)}"'))
    result = place.fetch(url=server.url("/blob"), **of(content), **RANGES)
    assert result["error"] == "corrupt"
    assert place.blobs() == [] and place.ingests() == []


def test_another_size_than_was_said_is_found_before_it_comes(place, server):
    server.file("/blob", SMALL + b"more")
    result = place.fetch(url=server.url("/blob"), **of(SMALL))
    assert_failed(
        place,
        result,
        "corrupt",
        f"cannot fetch {server.url('/blob')}: the server has {len(SMALL) + 4} bytes, and at most {len(SMALL)} bytes may come",
    )
    server.file("/blob", SMALL[:-4])
    result = place.fetch(url=server.url("/blob"), **of(SMALL))
    assert_failed(
        place, result, "corrupt", f"cannot fetch {server.url('/blob')}: the server has {len(SMALL) - 4} bytes instead of {len(SMALL)}"
    )


def test_a_length_that_is_a_lie_is_found(place, server):
    def serve(request):
        request.begin(200, len(SMALL) + 100, Connection="close")
        request.body(SMALL)
        request.close_connection = True

    server.on("/blob", serve)
    result = place.fetch(url=server.url("/blob"), attempts=2)
    assert result["error"] == "unavailable" and "100 bytes remaining" in result["text"]
    assert place.blobs() == []


def test_an_endless_body_ends_at_the_limit(place, server):
    def serve(request):
        request.begin(200, None, Connection="close")
        while True:
            request.body(bytes(MEGABYTE))

    server.on("/blob", serve)
    result = place.fetch(url=server.url("/blob"), most=5 * MEGABYTE)
    assert_failed(place, result, "corrupt", f"cannot fetch {server.url('/blob')}: more than {5 * MEGABYTE} bytes come")
    assert server.sent < 40 * MEGABYTE


def test_a_flood_of_headers_is_cut(place, server):
    def serve(request):
        request.send_response(200)
        for i in range(2000):
            request.send_header(f"X-{i}", "y" * 200)
        request.send_header("Content-Length", str(len(SMALL)))
        request.end_headers()
        request.body(SMALL)

    server.on("/blob", serve)
    result = place.fetch(url=server.url("/blob"), **of(SMALL))
    assert_failed(
        place,
        result,
        "corrupt",
        f"cannot fetch {server.url('/blob')}: 127.0.0.1:{server.port}: the server sends more than 65536 bytes of headers",
    )


def test_what_is_slow_but_steady_is_not_silent(place, server):
    def serve(request):
        request.begin(200, 65_000)
        for at in range(65):
            request.body(SMALL[at * 1000 : at * 1000 + 1000], pause=0.1)

    server.on("/blob", serve)
    got = place.fetch(url=server.url("/blob"), attempts=1, stall=1000, silence=500, **of(SMALL[:65_000]))
    assert_stored(place, got, SMALL[:65_000])


@pytest.mark.parametrize("tag", ['"' + 12_000 * "\x01" + '"', '"' + 60_000 * "x" + '"', '"' + 300 * "x" + '"'])
def test_a_tag_that_cannot_be_told_harms_no_transfer(place, server, tag):
    for name in ("a", "b"):
        server.on(f"/{name}{digest_of(SMALL)}", lambda request: request.serve(SMALL, etag=tag))
    for name in "ab":
        assert_stored(place, place.fetch(url=server.url(f"/{name}"), each=1, attempts=1, **of(SMALL)), SMALL)
        place.run("gc")
    server.file("/large", LARGE, etag=tag, most=700_000)
    assert place.fetch(url=server.url("/large"), streams=1, **of(LARGE), **RANGES).get("digest") == digest_of(LARGE)


def test_what_goes_wrong_in_an_answer_is_told(place, server):
    def serve(request):
        request.begin(200, None, Connection="close")
        request.body(SMALL + b"more")
        request.close_connection = True

    server.on("/blob", serve)
    result = place.fetch(url=[server.url("/missing"), server.url("/blob")], attempts=1, most=len(SMALL))
    assert result["error"] == "corrupt" and "come" in result["text"]


def test_a_compressed_answer_is_taken_as_it_is(place, server):
    bomb = gzip.compress(bytes(50 * MEGABYTE))
    server.on("/blob", lambda request: request.send(200, bomb, Content_Encoding="gzip"))
    assert_stored(place, place.fetch(url=server.url("/blob")), bomb)
    assert server.headers("Accept-Encoding") == ["identity"]


def test_ranges_that_were_not_asked_for_are_refused(place, server):
    server.on("/blob", lambda request: request.send(206, LARGE[5:105], Content_Range=f"bytes 5-104/{len(LARGE)}"))
    result = place.fetch(url=server.url("/blob"), **of(LARGE), **RANGES)
    assert_failed(place, result, "corrupt", f"cannot fetch {server.url('/blob')}: the server gives another range than was asked for")


def test_redirects_end(place, server):
    server.on("/blob", lambda request: request.send(302, Location="/blob"))
    result = place.fetch(url=server.url("/blob"), **of(SMALL))
    assert_failed(place, result, "corrupt", f"cannot fetch {server.url('/blob')}: {server.url('/blob')} redirects more than 10 times")
    assert len(server.requests) == 11


@pytest.mark.parametrize("target", ["file:///etc/passwd", "ftp://127.0.0.1/x", "gopher://127.0.0.1/x"])
def test_redirects_lead_to_http_only(place, server, target):
    server.on("/blob", lambda request: request.send(302, Location=target))
    result = place.fetch(url=server.url("/blob"), **of(SMALL))
    assert_failed(place, result, "corrupt", f"cannot fetch {server.url('/blob')}: {target} is not a URL of http or https")


# Credentials.

SECRET = "correct-horse-battery-staple"


@pytest.fixture
def secret(place):
    path = place.directory / "password"
    path.write_text(SECRET)
    return {"user": "alice", "password_file": path}


def assert_secret_is_in_no_process(_=None):
    """While a request is answered: no command line and no environment of the machine has it."""
    for process in Path("/proc").glob("[0-9]*"):
        for name in ("cmdline", "environ"):
            try:
                assert SECRET.encode() not in (process / name).read_bytes()
            except OSError:
                pass


def basic(text):
    import base64

    return "Basic " + base64.b64encode(text.encode()).decode()


def test_basic_authentication_shows_credentials_when_it_is_asked(place, server, secret):
    leaks = []

    def serve(request):
        try:
            assert_secret_is_in_no_process()
        except AssertionError as error:
            leaks.append(error)
        if request.headers.get("Authorization") != basic(f"alice:{SECRET}"):
            return request.send(401, WWW_Authenticate='Basic realm="x"')
        request.serve(LARGE)

    server.on("/blob", serve)
    blob = place.fetch(url=server.url("/blob"), host=f"127.0.0.1:{server.port}", **secret, **of(LARGE), **RANGES)
    assert_stored(place, blob, LARGE)
    assert leaks == []
    assert server.headers("Authorization")[0] is None
    assert len([each for each in server.headers("Authorization") if each is None]) == 1


def test_a_token_service_gets_the_credentials_and_the_registry_the_token(place, server, secret):
    with FaultServer() as service:

        def token(request):
            if request.headers.get("Authorization") != basic(f"alice:{SECRET}"):
                return request.send(401)
            request.send(200, b'{"token":"tok-en","expires_in":300}')

        service.on("/token", token)

        def serve(request):
            if request.headers.get("Authorization") != "Bearer tok-en":
                challenge = f'Bearer realm="{service.url("/token")}",service="reg",scope="repository:a/b:pull,push"'
                return request.send(401, b"{}", WWW_Authenticate=challenge)
            request.serve(SMALL)

        server.on("/blob", serve)
        words = {"url": server.url("/blob"), "scope": "repository:a/b:pull", "host": f"127.0.0.1:{server.port}"}
        assert_stored(place, place.fetch(**words, **secret, **of(SMALL)), SMALL)
        assert service.paths() == ["/token?service=reg&scope=repository%3aa%2fb%3apull"]
    assert all(SECRET not in str(headers) and basic(f"alice:{SECRET}") not in str(headers) for _, headers in server.requests)


@pytest.mark.parametrize("is_elsewhere", [False, True])
def test_a_token_service_may_redirect(place, server, secret, is_elsewhere):
    """It does not get the credentials to another host."""
    with FaultServer() as other:
        target = other if is_elsewhere else server
        seen = []

        def token(request):
            seen.append(request.headers.get("Authorization"))
            request.send(200, b'{"token":"tok-en"}')

        target.on("/moved", token)
        server.on("/token", lambda request: request.send(307, Location=target.url("/moved?" + request.path.partition("?")[2])))

        def serve(request):
            if request.headers.get("Authorization") == "Bearer tok-en":
                return request.serve(SMALL)
            request.send(401, WWW_Authenticate=f'Bearer realm="{server.url("/token")}",service="reg"')

        server.on("/blob", serve)
        words = {"url": server.url("/blob"), "host": f"127.0.0.1:{server.port}"}
        assert_stored(place, place.fetch(**words, **secret, **of(SMALL)), SMALL)
    assert seen == [None if is_elsewhere else basic(f"alice:{SECRET}")]


def test_a_token_service_that_only_redirects_is_given_up(place, server):
    server.on("/blob", lambda request: request.send(401, WWW_Authenticate=f'Bearer realm="{server.url("/token")}"'))
    server.on("/token", lambda request: request.send(302, Location="/token"))
    result = place.fetch(url=server.url("/blob"), attempts=3, **of(SMALL))
    assert result["error"] == "corrupt" and "redirects more than 10 times" in result["text"]


@pytest.mark.parametrize("life", ["0", "-1", "1", "null"])
def test_a_token_that_is_said_to_live_for_no_time_is_used(place, server, life):
    def serve(request):
        if request.headers.get("Authorization") == "Bearer tok-en":
            return request.serve(SMALL)
        request.send(401, WWW_Authenticate=f'Bearer realm="{server.url("/token")}"')

    server.on("/blob", serve)
    server.on("/token", lambda request: request.send(200, b'{"token":"tok-en","expires_in":%s}' % life.encode()))
    assert_stored(place, place.fetch(url=server.url("/blob"), **of(SMALL)), SMALL)
    assert len(server.requests) == 3


@pytest.mark.parametrize(("status", "attempts", "kind"), [
    (200, 1, "corrupt"), (204, 1, "unavailable"), (302, 1, "unavailable"), (401, 1, "denied"), (403, 1, "denied"), (404, 1, "unavailable"),
    (408, 2, "timeout"), (425, 2, "unavailable"), (429, 2, "busy"), (503, 2, "unavailable")])
def test_a_token_service_that_fails_is_asked_again_if_that_may_help(place, server, status, attempts, kind):
    """Not found is only what the registry does not find."""
    server.on("/blob", lambda request: request.send(401, WWW_Authenticate=f'Bearer realm="{server.url("/token")}"'))
    server.on("/token", lambda request: request.send(status, b"x" * 300_000 if status == 200 else b"", Retry_After=0))
    result = place.fetch(url=server.url("/blob"), attempts=2, **of(SMALL))
    told = "gives more than 262144 bytes" if status == 200 else f"answers {status}"
    assert_failed(place, result, kind, f"cannot fetch {server.url('/blob')}: the token service of 127.0.0.1:{server.port} {told}")
    assert server.paths().count("/token") == attempts


def test_nobody_is_told_of_credentials_that_were_not_given(place, server):
    """As at Docker Hub, for a repository that does not exist."""
    server.on("/blob", lambda request: request.send(401, WWW_Authenticate=f'Bearer realm="{server.url("/token")}"'))
    server.on("/token", lambda request: request.send(200, b'{"token":"x"}'))
    result = place.fetch(url=server.url("/blob"), **of(SMALL))
    reason = f"127.0.0.1:{server.port} wants credentials for it, or does not have it"
    assert_failed(place, result, "denied", f"cannot fetch {server.url('/blob')}: {reason}")


def test_what_is_no_url_is_refused_at_once(place):
    began = time.monotonic()
    result = place.fetch(url="http://127.0.0.1:1/a b", **of(SMALL))
    assert result["error"] == "invalid" and "is not a URL: Bad path" in result["text"]
    assert time.monotonic() - began < 20


def test_wrong_credentials_are_told_without_saying_them(place, server, secret):
    server.on("/blob", lambda request: request.send(401, WWW_Authenticate="Basic"))
    result = place.fetch(url=server.url("/blob"), host=f"127.0.0.1:{server.port}", **secret, **of(SMALL))
    assert_failed(place, result, "denied", f"cannot fetch {server.url('/blob')}: 127.0.0.1:{server.port} refuses the credentials")
    assert len(server.requests) == 2


def test_credentials_do_not_follow_a_redirect_to_another_host(place, server, secret):
    with FaultServer() as other:

        def serve(request):
            if request.headers.get("Authorization") is None:
                return request.send(401, WWW_Authenticate="Basic")
            request.send(307, Location=other.url("/blob"))

        server.on("/blob", serve)
        other.file("/blob", SMALL)
        words = {"url": server.url("/blob"), "host": f"127.0.0.1:{server.port}", **secret, **of(SMALL)}
        assert_stored(place, place.fetch(**words), SMALL)
        assert other.headers("Authorization") == [None]
        place.run("gc")
        other.on("/blob", lambda request: request.send(401, WWW_Authenticate="Basic"))
        result = place.fetch(**words)
        reason = f"127.0.0.1:{other.port}, where a redirect leads, wants credentials"
        assert_failed(place, result, "denied", f"cannot fetch {server.url('/blob')}: {reason}")
        assert other.headers("Authorization") == [None, None]


def test_secrets_are_in_no_message_and_in_no_file(place, server, secret):
    def serve(request):
        if request.headers.get("Authorization") is None:
            return request.send(401, WWW_Authenticate="Basic")
        request.send(500, f"you sent {SECRET}".encode())

    server.on("/blob", serve)
    trace = place.directory / "trace"
    prefix = ["strace", "-f", "-s", "100000", "-o", str(trace), "-e", "trace=sendmsg,recvmsg,execve"]
    words = {"url": server.url("/blob"), "host": f"127.0.0.1:{server.port}", "attempts": 2, **secret, **of(SMALL)}
    process = place.start("fetch", prefix=prefix, **words)
    output, errors = process.communicate()
    assert '"error":"unavailable"' in output
    text = trace.read_text()
    assert '\\"download\\"' in text and '\\"downloadFailed\\"' in text  # it has seen the messages
    for hidden in (SECRET, basic(f"alice:{SECRET}").split()[1]):
        assert hidden not in text + output + errors
        assert not any(hidden.encode() in path.read_bytes() for path in place.store.rglob("*") if path.is_file())


# Ways to the server.


def test_a_proxy_is_asked_for_all_of_it(place, server):
    server.file("/blob", SMALL)
    assert_stored(place, place.fetch(url="http://nowhere.invalid/blob", proxy=f"http://127.0.0.1:{server.port}", **of(SMALL)), SMALL)


def test_the_environment_does_not_choose_a_proxy(place, server, monkeypatch):
    server.file("/blob", SMALL)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert_stored(place, place.fetch(url=server.url("/blob"), **of(SMALL)), SMALL)


@pytest.fixture
def certificate(place):
    key, authority = place.directory / "key.pem", place.directory / "ca.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", authority],
        check=True,
        capture_output=True,
    )  # fmt: skip
    return authority, key


def test_https_is_trusted_by_its_authority_only(place, certificate):
    with FaultServer(certificate) as server:
        server.file("/blob", LARGE)
        words = {"url": server.url("/blob", "localhost"), **of(LARGE), **RANGES}
        result = place.fetch(**words)
        assert result["error"] == "denied" and "self-signed certificate" in result["text"]
        wrong_name = place.fetch(ca=certificate[0], **{**words, "url": server.url("/blob")})
        assert wrong_name["error"] == "denied" and "127.0.0.1" in wrong_name["text"]
        assert_stored(place, place.fetch(ca=certificate[0], **words), LARGE)


def plain_and_secure(server, path):
    secure = server.url(path, "localhost").replace("http://", "https://")
    return [secure, secure.replace("https://", "http://")]


def is_secure(request):
    return isinstance(request.connection, ssl.SSLSocket)


def test_a_server_without_https_is_asked_over_http(place, server):
    server.file("/blob", SMALL)
    assert_stored(place, place.fetch(url=plain_and_secure(server, "/blob"), **of(SMALL)), SMALL)
    missing = place.fetch(url=plain_and_secure(server, "/missing"), **of(LARGE))
    assert (missing["error"], "answers 404" in missing["text"]) == ("notFound", True), missing
    assert server.paths() == ["/blob", "/missing"]
    with FaultServer() as gone:
        urls = plain_and_secure(gone, "/blob")
    assert place.fetch(url=urls, attempts=1, **of(LARGE))["error"] == "unavailable"


def test_a_server_with_https_is_not_asked_over_http(place, certificate):
    asked = []

    def refuse(status, **headers):
        def answer(request):
            asked.append((is_secure(request), status))
            request.send(status, **headers)

        return answer

    def other(request):
        asked.append((is_secure(request), 200))
        request.send(200, SMALL[::-1])

    with FaultServer(certificate, is_also_plain=True) as server:
        server.on("/401", refuse(401, WWW_Authenticate='Basic realm="x"'))
        server.on("/404", refuse(404))
        server.on("/other", other)
        server.file("/good", SMALL)
        for path, error in (("/401", "denied"), ("/404", "notFound"), ("/other", "corrupt")):
            result = place.fetch(url=plain_and_secure(server, path), ca=certificate[0], attempts=1, **of(SMALL))
            assert result["error"] == error, result
        assert asked == [(True, 401), (True, 404), (True, 200)]
        untrusted = place.fetch(url=plain_and_secure(server, "/good"), **of(SMALL))
        assert (untrusted["error"], "self-signed certificate" in untrusted["text"]) == ("denied", True), untrusted
        # A mirror behind both is asked.
        urls = [*plain_and_secure(server, "/other"), server.url("/good", "localhost")]
        assert_stored(place, place.fetch(url=urls, ca=certificate[0], **of(SMALL)), SMALL)
        assert all(secure for secure, _ in asked)


# Documents.


def test_a_document_is_read_and_kept(place, server):
    server.on("/list", lambda request: request.send(200, b'{"b": [1, 2],\n "a": "x"}', Content_Type="application/json"))
    got = place.run("document", url=server.url("/list"))[-1]
    assert (got["json"], got["size"]) == ('{"b":[1,2],"a":"x"}', 24)
    assert len(place.blobs()) == 1
    place.run("gc")
    assert place.run("document", url=server.url("/list"), drop=1)[-1]["json"] == '{"b":[1,2],"a":"x"}'
    assert place.blobs() == []


@pytest.mark.parametrize("drop", [{}, {"drop": 1}])
def test_a_document_is_not_collected_before_it_is_read(place, server, drop):
    server.on("/list", lambda request: request.send(200, b'{"a": 1}'))
    assert place.run("document", url=server.url("/list"), gc_when_stored=1, **drop)[-1]["json"] == '{"a":1}'
    assert len(place.blobs()) == (0 if drop else 1)
    place.run("gc")
    assert place.blobs() == []


@pytest.mark.parametrize(
    "text", [b"", b"{", b'{"a":1,"a":2}', b"<html>", b"\xff", b"[" * 2000], ids=["empty", "open", "twice", "html", "bytes", "deep"]
)
def test_what_is_no_document_is_refused_and_not_kept(place, server, text):
    server.on("/list", lambda request: request.send(200, text))
    assert place.run("document", url=server.url("/list"))[-1]["error"] == "corrupt"
    assert place.blobs() == []


def test_a_document_that_is_too_long_does_not_come(place, server):
    server.on("/list", lambda request: request.send(200, b" " * (5 * MEGABYTE)))
    assert place.run("document", url=server.url("/list"))[-1]["error"] == "corrupt"
    assert server.sent < 5 * MEGABYTE


def test_the_process_of_a_download_ends_with_its_user(place, server):
    server.file("/blob", LARGE, pause=0.05)
    process = place.start("fetch", url=server.url("/blob"), **of(LARGE), **RANGES)
    wait_until(lambda: server.sent > MEGABYTE)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    assert len(children) == 2
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    wait_until(lambda: not any(Path(f"/proc/{child}").exists() for child in children))
