#!/usr/bin/env python3
"""Measures how soon a real kube-apiserver has the annotation with a new configuration: etcd, the API server, a pod
object and a launcher that believes to be in that pod, all from the rig in tests/kubernetes.

`annotation.py DISK AREA SWAPS` is what the measure of that name runs as a process of its own, because it moves into a
network namespace, with our programs in TRITON_LAUNCH and TRITON_AGENT. etcd's data goes below DISK, the pod's files
below AREA. It prints one JSON object: the nanoseconds of each swap, and how often the pod and the API were written to.
"""

import http.client
import json
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
TESTS = HERE.parent / "tests"
sys.path[:0] = [str(TESTS / "kubernetes"), str(TESTS)]

import rig  # noqa: E402
from harness.process import eventually  # noqa: E402
from test_load import AnnotationWatch  # noqa: E402
from serving import ConfigMap  # noqa: E402

STEPS = ("say:up", "trap", "until:15")  # of the one child
# Writes that have to wait for each other are kept further and further apart, from 250 ms to 4 s, until one need not
# (Pace in sidecar/kubernetes/backoff.h). The kubelet swaps once a minute, so that none should wait here either: not for
# those of the start, and not for one that came late.
CALM, PAUSE = 4.2, 0.6  # seconds
WARM = 3  # swaps that do not count


def build_programs(directory):
    """The helpers of the rig: what puts the launcher in its pod, and its child."""
    for name in ("place", "probe"):
        subprocess.run(["gcc", "-std=gnu11", "-static", "-O1", "-o", directory / name,
                        TESTS / "harness" / "helpers" / f"{name}.c"], check=True)
    return directory


def writes(namespace):
    """How often the launcher has changed its pod, and anything at all."""
    requests = [request for request in namespace.requests() if request["verb"] not in ("get", "list", "watch")]
    return sum(request["objectRef"]["resource"] == "pods" for request in requests), len(requests)


def swap_once(mount, watch):
    """Nanoseconds from the rename of the link to the annotation at another client."""
    mount.prepare()
    before = time.monotonic()
    mount.swap()
    seen = watch.wait_for(mount.text)
    mount.clean()
    return round((seen - before) * 1e9)


def measure(cluster, area, count):
    pod = rig.Pod(rig.Namespace(cluster, "bench"), build_programs(area), area)
    mount = ConfigMap(pod.configuration.directory, lambda mark: rig.probe_configuration(*STEPS, f"say:{mark}"))
    pod.start()
    try:
        pod.wait_reported(mount.text)
        watch = AnnotationWatch(pod)
        time.sleep(CALM)
        times, before = [], None
        for number in range(WARM + count):
            if number == WARM:
                before = writes(pod.namespace)
            times.append(swap_once(mount, watch))
            # Its log has to be read, or it would drop lines. During the pause the API server writes its own.
            pod.launcher.wait_for_event("configuration-loaded")
            time.sleep(PAUSE)
        of_pod, of_all = (after - earlier for earlier, after in zip(before, writes(pod.namespace)))
        return {"times": times[WARM:], "pod": of_pod / count, "all": of_all / count}
    finally:
        pod.close()


def main():
    disk, area, count = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), int(sys.argv[3])
    area.chmod(0o777)  # the agent has a user of its own
    try:
        rig.enter_network_namespace()
        cluster = rig.Cluster(disk)
        try:
            cluster.start()
            print(json.dumps(measure(cluster, area, count)))
        finally:
            cluster.close()
    except (AssertionError, OSError, ValueError, http.client.HTTPException, subprocess.SubprocessError) as error:
        print(error, file=sys.stderr)  # the rig's tell the whole story below a line that tells what
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
