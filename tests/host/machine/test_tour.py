"""What `./dev run machines` shows works, with images as images/machines makes them."""

import os
import subprocess
import sys

from conftest import BUILD, SOURCE

sys.path.insert(0, str(SOURCE / "examples/machines"))
import tour  # noqa: E402


def test_the_tour(host, vmadm):
    for place in ("images", "again"):
        subprocess.run([SOURCE / "images/machines", host.path(f"/root/{place}"), "tiny"], check=True, stdout=subprocess.DEVNULL,
                       env={**os.environ, "TRITON_LAUNCH": str(BUILD / "triton-launch")})
    assert host.run("diff", "-r", "/root/images", "/root/again").stdout == "", "an image made twice is the same"
    shown = []
    tour.walk(tour.Tour(host, shown.append), "/root/images")
    text = "".join(shown)
    assert "Successfully created VM" in text and "Successfully deleted VM" in text
    assert vmadm.ok("list", "-p") == ""


def test_a_tiny_machine_boots_by_itself(host, vmadm):
    """Without a launch property it is the image that says what runs."""
    image = host.run("imgadm", "list", "-H", "-o", "uuid", "name=tour-tiny").stdout.split()
    if not image:
        tour.Tour(host, lambda _: None)
        subprocess.run([SOURCE / "images/machines", host.path("/root/images"), "tiny"], check=True, stdout=subprocess.DEVNULL,
                       env={**os.environ, "TRITON_LAUNCH": str(BUILD / "triton-launch")})
        version = tour.version(tour.Tour(host, None))
        host.run("imgadm", "import", f"oci:/root/images/machine-tiny:{version}", "--name", "tour-tiny", check=True)
        image = host.run("imgadm", "list", "-H", "-o", "uuid", "name=tour-tiny", check=True).stdout.split()
    vmadm.ok("create", payload=tour.json.dumps({"brand": "lx", "alias": "tiny", "image_uuid": image[0], "ram": 32, "quota": 0}))
    pid = tour.json.loads(vmadm.ok("get", "tiny"))["pid"]
    assert host.run("readlink", f"/proc/{pid}/exe", check=True).stdout == "/usr/bin/triton-launch\n"
    assert vmadm.says("stop", "tiny")[0] == 0
