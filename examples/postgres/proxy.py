"""Passes connections on to a Unix socket. It gets its listening socket from the launcher (LISTEN_FDS), which keeps it
over a restart: whoever connects meanwhile waits in its queue, and none is refused.

While the server behind is away, connections wait for it.
"""

import asyncio
import os
import signal
import socket
import sys

FIRST_FD = 3  # sd_listen_fds(3)


def listening_socket():
    if os.environ.get("LISTEN_PID") != str(os.getpid()) or os.environ.get("LISTEN_FDS") != "1":
        sys.exit("proxy: no listening socket was passed")
    listener = socket.socket(fileno=FIRST_FD)
    listener.setblocking(False)
    return listener


def say_ready():
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.sendto(b"READY=1", os.environ["NOTIFY_SOCKET"].replace("@", "\0", 1))


async def connect(path):
    while True:
        try:
            return await asyncio.open_unix_connection(path)
        except OSError:  # a socket that is not there cannot be waited for
            await asyncio.sleep(0.05)


async def pump(reader, writer):
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()
    writer.write_eof()


async def serve(client, path):
    reader, writer = await asyncio.open_connection(sock=client)
    server_reader, server_writer = await connect(path)
    try:
        await asyncio.gather(pump(reader, server_writer), pump(server_reader, writer))
    except OSError:
        pass  # one side is gone, and with it the connection
    finally:
        writer.close()
        server_writer.close()


async def main(path):
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stopping.set)
    listener = listening_socket()
    connections = set()

    def accept():
        try:
            client, _ = listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return  # whoever was there has left
        client.setblocking(False)
        connection = loop.create_task(serve(client, path))
        connections.add(connection)
        connection.add_done_callback(connections.discard)

    # Not sock_accept(): if it is cancelled when it has a connection already, that connection is lost.
    loop.add_reader(listener, accept)
    say_ready()
    await stopping.wait()
    loop.remove_reader(listener)
    print(f"stopping; {len(connections)} connections to end", flush=True)
    await asyncio.gather(*connections, return_exceptions=True)


asyncio.run(main(sys.argv[1]))
