"""Copies on a file system that can share blocks: XFS in a file, mounted where only the test sees it."""

import shutil
import subprocess

import pytest

from harness.process import BINARY, TIMEOUT

SIZE = 50_000_000
SCRIPT = """
set -e
mount -o loop,nodev,nosuid "$1/image" "$1/disk"
mkdir "$1/disk/in"
head -c {size} /dev/urandom >"$1/disk/in/large"
sync --file-system "$1/disk"
free=$(stat --file-system --format %f "$1/disk")
"$2" --mode init --input-dir "$1/disk/in" --output-dir "$1/disk/out" --copy-file large
cmp "$1/disk/in/large" "$1/disk/out/large"
echo "blocks $((free - $(stat --file-system --format %f "$1/disk")))"
"""


def test_a_copy_shares_its_blocks(area, needs_root):
    if not shutil.which("mkfs.xfs", path="/usr/sbin:/sbin"):
        pytest.skip("needs mkfs.xfs (xfsprogs)")
    (area / "disk").mkdir()
    with open(area / "image", "wb") as image:
        image.truncate(320 << 20)
    subprocess.run(["/usr/sbin/mkfs.xfs", "-q", area / "image"], check=True)
    mounted = subprocess.run(["unshare", "--mount", "--propagation", "private", "sh", "-c", SCRIPT.format(size=SIZE), "sh",
                              area, BINARY], capture_output=True, text=True, timeout=TIMEOUT, check=False)
    if "mount:" in mounted.stderr:
        pytest.skip(f"no loop device here: {mounted.stderr.strip()}")
    assert mounted.returncode == 0, mounted.stderr
    blocks = int(mounted.stdout.rsplit("blocks ", 1)[1])
    assert blocks * 4096 < SIZE / 10, "it was copied, not shared"
