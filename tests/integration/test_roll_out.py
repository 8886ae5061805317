"""Whole upgrades with the operator's command lines: configuration, sidecar and pod are replaced in every order.

Only the patch number differs in one upgrade: both versions speak one protocol, and the pod never lacks a binary. In the
other one it waits for the binary that it needs.
"""

import shutil
import signal

import pytest

OLD = "7.1.43"
PATCH = "7.1.57"
NEXT = "7.3.1"
UP = ("report", "trap", "say:up", "until:15")


class Pod:
    """The main container and its sidecar, each of some image, with what they share."""

    def __init__(self, place):
        self.place = place
        self.shared = place.area / "shared"
        self.shared.mkdir()
        self.configuration = place.configuration()
        self.main = None
        self.process = None

    def image(self, version):
        """The directory of an image: its server and its version."""
        directory = self.place.area / f"image-{version}"
        if not directory.exists():
            directory.mkdir()
            shutil.copy(self.place.probe, directory / "fdbserver")
            (directory / "version").write_text(f"{version}\n")
        return directory

    def own_binary(self, version):
        return str(self.image(version) / "fdbserver")

    def shared_binary(self, version):
        return str(self.shared / "bin" / version / "fdbserver")

    def start(self, version):
        """A fresh main container."""
        if self.main:
            self.main.close()
        image = self.image(version)
        self.main = self.place.start("--input-dir", self.configuration.directory, "--log-path",
                                     self.place.area / "monitor.log", "--process-count", "1", "--version-file",
                                     image / "version", "--fdbserver-path", image / "fdbserver",
                                     "--shared-binary-dir", self.shared / "bin", "--restart-delay", "2ms",
                                     "--restart-max-delay", "5ms")

    def start_sidecar(self, version, main_version):
        """A fresh sidecar; returns once it has done its work."""
        image = self.image(version)
        sidecar = self.place.start("--mode", "sidecar", "--output-dir", self.shared, "--main-container-version",
                                   main_version, "--copy-binary", "fdbserver", "--binary-dir", image, "--version-file",
                                   image / "version")
        sidecar.wait_for_event("staging-skipped" if version == main_version else "file-copied")

    def configure(self, version):
        self.configuration.write(*UP, version=version)

    def wait_loaded(self, version, binary):
        loaded = self.main.wait_for_event("configuration-loaded")
        assert (loaded["version"], loaded["binary"]) == (version, binary)

    def wait_up(self, binary):
        report = self.main.wait_for_probe("report")
        assert report["argv"][0] == binary
        self.process = self.main.wait_up()

    def kill(self):
        """What the operator does through fdbcli once all pods have the configuration."""
        self.main.signal_inside(self.process["pid"], signal.SIGKILL)


@pytest.fixture
def pod(place):
    made = Pod(place)
    made.configure(OLD)
    made.start(OLD)
    made.wait_loaded(OLD, made.own_binary(OLD))
    made.wait_up(made.own_binary(OLD))
    made.start_sidecar(OLD, OLD)
    return made


def replace(pod, version):
    """The end of every upgrade: the pod has the new image and needs nobody else's binary."""
    pod.start(version)
    pod.wait_loaded(version, pod.own_binary(version))
    pod.wait_up(pod.own_binary(version))


def test_patch_with_the_configuration_first(pod):
    pod.configure(PATCH)
    awaited = pod.main.wait_for_event("binary-awaited")
    assert awaited["message"] == (f"version {PATCH} is not in {pod.shared}/bin yet; {pod.own_binary(OLD)} of version "
                                  f"{OLD} speaks the same protocol")
    pod.wait_loaded(PATCH, pod.own_binary(OLD))
    pod.kill()
    pod.wait_up(pod.own_binary(OLD))
    pod.start_sidecar(PATCH, OLD)
    pod.wait_loaded(PATCH, pod.shared_binary(PATCH))
    pod.kill()
    pod.wait_up(pod.shared_binary(PATCH))
    assert not pod.main.events_named("configuration-rejected")
    replace(pod, PATCH)


def test_patch_with_the_sidecar_first(pod):
    pod.start_sidecar(PATCH, OLD)
    pod.configure(PATCH)
    pod.wait_loaded(PATCH, pod.shared_binary(PATCH))
    pod.kill()
    pod.wait_up(pod.shared_binary(PATCH))
    replace(pod, PATCH)
    assert not pod.main.events_named("binary-awaited")


def test_patch_with_the_pod_first(pod):
    """What a rolling replacement of all pods does; and no sidecar ever brings the old version."""
    pod.start(PATCH)
    pod.main.wait_for_event("binary-awaited")
    pod.wait_loaded(OLD, pod.own_binary(PATCH))
    pod.wait_up(pod.own_binary(PATCH))
    pod.configure(PATCH)
    pod.wait_loaded(PATCH, pod.own_binary(PATCH))
    assert not pod.main.events_named("configuration-rejected")


def test_another_protocol_with_the_configuration_first(pod):
    pod.configure(NEXT)
    rejected = pod.main.wait_for_event("configuration-rejected")
    assert rejected["errors"] == [f"binary {pod.shared}/bin/bin/{NEXT}/fdbserver: No such file or directory "
                                  f"(nor {pod.shared_binary(NEXT)})"]
    pod.start_sidecar(NEXT, OLD)
    pod.wait_loaded(NEXT, pod.shared_binary(NEXT))
    assert pod.main.is_alive(pod.process["pid"]), "nothing restarts before the operator says so"
    pod.kill()
    pod.wait_up(pod.shared_binary(NEXT))
    replace(pod, NEXT)


def test_another_protocol_with_the_sidecar_first(pod):
    pod.start_sidecar(NEXT, OLD)
    pod.configure(NEXT)
    pod.wait_loaded(NEXT, pod.shared_binary(NEXT))
    pod.kill()
    pod.wait_up(pod.shared_binary(NEXT))
    assert not pod.main.events_named("configuration-rejected")
    replace(pod, NEXT)


def test_another_protocol_with_the_pod_first(pod):
    """It must not speak to a cluster of the old protocol, and waits for the configuration of its own."""
    pod.start(NEXT)
    pod.main.wait_for_event("configuration-rejected")
    pod.configure(NEXT)
    pod.wait_loaded(NEXT, pod.own_binary(NEXT))
    pod.wait_up(pod.own_binary(NEXT))


def test_a_patch_that_is_taken_back(pod):
    pod.start_sidecar(PATCH, OLD)
    pod.configure(PATCH)
    pod.wait_loaded(PATCH, pod.shared_binary(PATCH))
    pod.configure(OLD)
    pod.wait_loaded(OLD, pod.own_binary(OLD))
    pod.kill()
    pod.wait_up(pod.own_binary(OLD))


@pytest.mark.parametrize("rule, version", [("exact", PATCH), ("auto", NEXT)])
def test_what_the_own_binary_does_not_serve(place, rule, version):
    pod = Pod(place)
    pod.configure(version)
    image = pod.image(OLD)
    launcher = place.start("--input-dir", pod.configuration.directory, "--version-file",
                           image / "version", "--fdbserver-path", image / "fdbserver", "--shared-binary-dir",
                           pod.shared, "--version-match", rule, "--exit-on-bad-config")
    launcher.wait_for_event("configuration-rejected")
    assert launcher.wait().code == 1
