#!/usr/bin/env python3
"""A tour of vmadm and imgadm for newcomers: a Debian host is booted in a container of its own, and each command is shown with what
it prints. `./dev run machines` runs it.

usage: tour.py BUILD     (needs root, mmdebstrap and systemd-nspawn)
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tests/testhost"))

PAUSE = {"command": ["/usr/bin/triton-launch", "--pause"]}


class Tour:
    """Shows commands on a host. `show` gets what a newcomer reads."""

    def __init__(self, host, show):
        self.host, self.show = host, show

    def tell(self, text: str) -> None:
        self.show(f"\n{text}\n\n")

    def run(self, *words: str, payload: dict | None = None) -> str:
        text = None if payload is None else json.dumps(payload)
        self.show("# " + " ".join(words) + (f" <<<'{text}'" if text else "") + "\n")
        done = self.host.run(*words, input=text)
        self.show(done.stdout + done.stderr)
        assert done.returncode == 0, f"{words} ended with {done.returncode}"
        return done.stdout

    def uuid_of(self, image: str) -> str:
        return self.host.run("imgadm", "list", "-H", "-o", "uuid", f"name={image}", check=True).stdout.split()[-1]


def walk(tour: Tour, images: str) -> None:
    """`images`: a directory of the host with the OCI image layout machine-tiny."""
    tour.tell("Images: one that holds triton-launch and nothing else, and a Debian with systemd.")
    tour.run("imgadm", "import", f"oci:{images}/machine-tiny:{version(tour)}", "--name", "tour-tiny")
    tour.run("imgadm", "import", "/mnt", "--name", "tour-debian", "--image-version", "12")
    tour.run("imgadm", "list", "-o", "uuid,name,type", "name=~tour")

    tour.tell("Two machines. The first has a launch configuration: triton-launch is its PID 1 and runs what it says.")
    tour.run("vmadm", "create", payload={"brand": "lx", "alias": "box", "image_uuid": tour.uuid_of("tour-tiny"), "ram": 64,
                                         "quota": 0, "launch": {"programs": {"main": PAUSE}}})
    tour.run("vmadm", "create", payload={"brand": "lx", "alias": "deb", "hostname": "deb", "image_uuid": tour.uuid_of("tour-debian"),
                                         "ram": 256, "quota": 0})
    tour.run("vmadm", "list")

    tour.tell("A machine is changed while it runs: its limits, and what its PID 1 runs.")
    tour.run("vmadm", "update", "deb", "ram=384", "cpu_cap=50")
    tour.run("vmadm", "update", "box", payload={"launch": {"programs": {"main": PAUSE, "second": PAUSE}}})
    tour.run("vmadm", "list", "-o", "alias,state,ram,cpu_cap,pid")

    tour.tell("Commands run inside, by the machine's name, as its root and within its limits.")
    tour.run("vmadm", "exec", "deb", "cat", "/etc/debian_version")
    tour.run("vmadm", "exec", "deb", "sh", "-c", "cat /proc/1/comm; hostname; id -un")

    tour.tell("A snapshot is a way back.")
    tour.run("vmadm", "create-snapshot", "deb", "fresh")
    tour.run("vmadm", "exec", "deb", "rm", "/etc/debian_version")
    tour.run("vmadm", "rollback-snapshot", "deb", "fresh")
    tour.run("vmadm", "exec", "deb", "cat", "/etc/debian_version")

    tour.tell("Away with both. Commands take several machines, and filters as list does.")
    tour.run("vmadm", "stop", "box")
    tour.run("vmadm", "list")
    tour.run("vmadm", "delete", "box", "deb")
    tour.run("vmadm", "list")


def version(tour: Tour) -> str:
    return tour.host.run("triton-launch", "--version", check=True).stdout.split()[1]


def main() -> None:
    from testhost import TestHost

    build = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="triton-tour-") as directory:
        print("booting a Debian host, and installing the package triton-host", flush=True)
        host = TestHost(f"triton-tour-{os.getpid()}", Path(directory), build)
        try:
            host.install_package(Path(directory) / "package")
            subprocess.run([SOURCE / "images/machines", host.path("/root/images"), "tiny"], check=True, stdout=subprocess.DEVNULL,
                           env={**os.environ, "TRITON_LAUNCH": str(build / "triton-launch")})
            walk(Tour(host, lambda text: print(text, end="", flush=True)), "/root/images")
        finally:
            host.stop()


if __name__ == "__main__":
    main()
