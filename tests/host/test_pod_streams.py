"""Terminals, input and attached clients of containers: real processes in namespaces of the test's own."""

from pathlib import Path

import pytest
from image_place import area, needs_root  # noqa: F401 (fixtures)
from pod_place import busybox, pods  # noqa: F401 (fixture)

pytestmark = needs_root


@pytest.fixture
def image(pods):
    return pods.install("busybox", busybox())


def test_a_container_with_a_terminal(pods, image):
    script = 'tty; echo "$TERM"; test -t 0 && test -t 1 && test -t 2 && echo three; ls -l /dev/console | cut -c1; echo error >&2; exit 3'
    container = pods.run_container(pods.run_pod(), image, "sh", "-c", script, tty=True)
    assert pods.wait_for_end(container).exit_code == 3
    lines = pods.log_lines(container)
    assert [text for _, _, _, text in lines] == ["/dev/pts/0", "xterm", "three", "c", "error"]
    assert Path(pods.container_status(container).log_path).read_bytes().count(b"\r\n") == 5
    assert {stream for _, stream, _, _ in lines} == {"stdout"}


def test_input_stays_open_until_somebody_ends_it(pods, image):
    pod = pods.run_pod()
    waiting = pods.run_container(pod, image, "sh", "-c", "echo up; cat; echo end", stdin=True, name="waiting")
    without = pods.run_container(pod, image, "sh", "-c", "cat; readlink /proc/self/fd/0; echo end", name="without")
    assert pods.wait_for_end(without).exit_code == 0
    assert pods.text_of(without) == "/dev/null\nend\n"
    pods.wait_for_log(waiting, "up")
    assert pods.state(waiting) == "CONTAINER_RUNNING" and pods.text_of(waiting) == "up\n"
