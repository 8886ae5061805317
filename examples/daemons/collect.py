"""Stands for the syslog daemon of a machine: writes each message that comes to a socket into a file, as it is.

    collect.py SOCKET FILE
"""

import os
import socket
import sys

READY_FD = 3  # "readiness" of config.json
LONGEST = 64 * 1024


def main():
    path, file = sys.argv[1:]
    if os.path.exists(path):
        os.unlink(path)  # of a predecessor
    incoming = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    incoming.bind(path)
    with open(file, "ab", buffering=0) as messages:
        os.write(READY_FD, b"\n")
        os.close(READY_FD)
        while True:
            messages.write(incoming.recv(LONGEST) + b"\n")


main()
