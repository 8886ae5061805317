"""critest's cases on tritoncrid, beside containerd with the same program that starts containers, and the same images."""

import os
from pathlib import Path

import pytest
from containerd_place import Containerd
from critest_place import CritestLab

# What cannot pass without the images of the internet, and why.
CANNOT_PASS = {
    "runtime should support MaskedPaths": "the shell of Debian's busybox runs its own ls, whatever is in /bin",
    "public image with digest should be pulled and removed": "the digest is that of an image which only the internet has",
}


def failures(results):
    return {name: text for name, text in results.items() if text.startswith("failed") and not any(part in name for part in CANNOT_PASS)}


def counts(results):
    passed, skipped = (sum(text == word for text in results.values()) for word in ("passed", "skipped"))
    return f"{passed} passed, {len(results) - passed - skipped} failed, {skipped} skipped"


def write_report(ours, theirs):
    """Where one is asked for: all cases whose results differ, or that do not pass."""
    if not (path := os.environ.get("TRITON_CRITEST_REPORT")):
        return
    lines = [f"tritoncrid: {counts(ours)}", f"containerd: {counts(theirs)}", ""]
    lines += [f"{name}\n    tritoncrid: {ours.get(name)}\n    containerd: {theirs.get(name)}"
              for name in sorted(set(ours) | set(theirs)) if (ours.get(name), theirs.get(name)) != ("passed", "passed")]
    Path(path).write_text("\n".join(lines) + "\n")


@pytest.mark.phase_seconds(7200)  # all cases, twice
def test_nothing_fails_that_passes_on_containerd(area):
    focus = os.environ.get("TRITON_CRITEST_FOCUS")
    lab = CritestLab(area)
    try:
        lab.configure_network(lab.network("ours0", "10.88.0.0/16"))
        ours = lab.critest(lab, "ours", focus)
        lab.remove_everything()
        lab.check_nothing_is_left()
        peer = Containerd(area, lab.lab, "registry.k8s.io/pause:3.9", registries=lab.registries)
        try:
            peer.configure_network(lab.network("theirs0", "10.89.0.0/16"))
            theirs = lab.critest(peer, "theirs", focus)
        finally:
            peer.close()
        write_report(ours, theirs)
        print(f"tritoncrid: {counts(ours)}; containerd: {counts(theirs)}")
        assert sum(text == "passed" for text in ours.values()) > (0 if focus else 90), f"too few cases ran: {counts(ours)}"
        worse = {name: text for name, text in failures(ours).items() if theirs.get(name) == "passed"}
        assert not worse, worse
        assert not (left := failures(ours)), f"these fail on containerd, too: {left}"
    finally:
        lab.close()
