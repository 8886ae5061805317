"""A worker of a pool: answers each job with the sum of its numbers.

All workers read one socket, which the launcher holds (LISTEN_FDS): each job comes to exactly one of them, and jobs wait
in it while no worker is there. A second socket of its own answers the health check, by the same loop: when that hangs,
so does the answer.
"""

import os
import selectors
import signal
import socket
import sys

JOBS_FD = 3  # the first of sd_listen_fds(3)
READY_FD = 4  # "readiness" of config.json


def do(job):
    """Returns: the answer. ValueError: the job is not a list of numbers."""
    return str(sum(map(int, job.split())))


def reply(via, text, client):
    try:
        via.sendto(text.encode(), client)  # waits for a client that is slow to read
    except ConnectionError:
        print("a client has gone without its answer", flush=True)


def take_job(jobs, number):
    try:
        job, client = jobs.recvfrom(4096, socket.MSG_DONTWAIT)
    except BlockingIOError:
        return  # another worker was faster
    if job == b"hang":  # what a lost lock or an endless loop does to a real one
        reply(jobs, f"{number} hangs", client)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        signal.pause()
    try:
        answer = do(job.decode())
    except ValueError as error:
        answer = f"error: {error}"
    reply(jobs, f"{number} {answer}", client)
    print(f"{job.decode()!r}: {answer}", flush=True)


def answer_health(health, number):
    _, client = health.recvfrom(64)
    reply(health, f"{number} works", client)


def main():
    number = sys.argv[1]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    jobs = socket.socket(fileno=JOBS_FD)
    path = "health"  # in its own directory
    if os.path.exists(path):
        os.unlink(path)  # of a predecessor that was killed
    health = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    health.bind(path)
    with selectors.DefaultSelector() as selector:
        selector.register(jobs, selectors.EVENT_READ, take_job)
        selector.register(health, selectors.EVENT_READ, answer_health)
        os.write(READY_FD, b"\n")
        os.close(READY_FD)
        while True:
            for key, _ in selector.select():
                key.data(key.fileobj, number)


main()
