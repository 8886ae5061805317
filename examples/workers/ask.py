"""ask.py --to SOCKET MESSAGE...: sends each message to a datagram socket, says so on standard error, and prints as many
answers.

The health check of the workers, and their client. Exit code 1: nobody listens, or an answer takes over 10 seconds.
"""

import socket
import sys
import threading


def main():
    if len(sys.argv) < 4 or sys.argv[1] != "--to":
        sys.exit(__doc__)
    path, messages = sys.argv[2], sys.argv[3:]
    client = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    client.bind("")  # an abstract address of the kernel's choice, for the answers
    client.settimeout(10)

    def send():  # beside reading: both queues are short, and workers wait for theirs
        for message in messages:
            client.send(message.encode())
        print(f"{len(messages)} sent", file=sys.stderr, flush=True)

    try:
        client.connect(path)
        threading.Thread(target=send, daemon=True).start()
        for _ in messages:
            print(client.recv(4096).decode(), flush=True)
    except OSError as error:
        sys.exit(f"{path}: {error}")


main()
