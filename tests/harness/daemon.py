"""A program that goes into the background, as old daemons do: fork, setsid, fork, and the first process ends. Not a part of the
harness that tests import: they run it. What it does is given by words:

late    its file comes a moment after the first process has ended
early   its file is there before the first process ends (the default)
open    it opens its file before it forks, and keeps it open, as with pidfile(3) of libbsd
file:TEXT   what its file says in place of its pid
then:TEXT   what its file says a moment later
crash   the first process ends with code 3
hang    the first process does not end
none    it writes no file
again   USR1 makes it go on as another process, as a new version of itself
"""

import os
import signal
import sys
import time

kept = os.open(sys.argv[1], os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o644) if "open" in sys.argv[2:] else None


def write(path, text):
    if kept is not None:
        os.pwrite(kept, text.encode(), 0)
        return
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        file.write(text)
    os.rename(f"{path}.new", path)


def background():
    """Returns in the process that goes on, with the write end by which it tells its parent that its file is there."""
    reader, writer = os.pipe()
    if os.fork() > 0:
        os.close(writer)
        return reader, None
    os.close(reader)
    os.setsid()
    if os.fork() > 0:
        os._exit(0)
    return None, writer


def serve(path, words, writer):
    said = next((word[5:] for word in words if word.startswith("file:")), f"{os.getpid()}\n")
    if "late" in words:
        os.close(writer)
        time.sleep(0.3)
    if "none" not in words:
        write(path, said)
    if "late" not in words:
        os.close(writer)
    print(f"daemon {os.getpid()} serves", flush=True)
    if later := next((word[5:] for word in words if word.startswith("then:")), None):
        time.sleep(0.3)
        write(path, later.replace("PID", str(os.getpid())))
    while True:
        match signal.sigwait({signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2}):
            case signal.SIGTERM:
                print(f"daemon {os.getpid()} ends", flush=True)
                os._exit(0)
            case signal.SIGUSR2:
                os._exit(7)
            case signal.SIGUSR1:
                reader, again = background()
                if reader is None:
                    return serve(path, ["early"], again)
                os.read(reader, 1)
                os._exit(0)


def main():
    path, words = sys.argv[1], sys.argv[2:]
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2})
    reader, writer = background()
    if reader is None:
        return serve(path, words, writer)
    os.read(reader, 1)
    if "hang" in words:
        signal.pthread_sigmask(signal.SIG_SETMASK, set())
        while True:
            signal.pause()
    os._exit(3 if "crash" in words else 0)


main()
