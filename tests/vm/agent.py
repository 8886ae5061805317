#!/usr/bin/python3
"""Runs in the virtual machine what is asked for outside, several commands at once. Both ways, a line is a JSON object:

{"id": 7, "run": [words], "env": {...}}   starts a command; {"id": 7, "connect": path} a connection to a socket of the machine
{"id": 7, "in": base64}                   is for its standard input, or the connection; {"id": 7, "close": true} ends that
{"id": 7, "signal": 15}                   sends it a signal
{"id": 7, "out": base64}, {"id": 7, "err": base64}, {"id": 7, "end": code}   come back; the last is the end
{"boot": id}                              says, at its start and when asked by {"hello": true}, that it is there
"""

import base64
import json
import os
import socket
import subprocess
import sys
import threading
import time

PORT = "/dev/virtio-ports/triton.agent"
PIECE = 48 << 10


class Agent:
    def __init__(self):
        self.port = os.open(PORT, os.O_RDWR)
        self.writing = threading.Lock()
        self.running = {}

    def tell(self, **message):
        data = (json.dumps(message) + "\n").encode()
        with self.writing:
            while data:
                data = data[os.write(self.port, data):]

    def lines(self):
        rest = b""
        while True:
            data = os.read(self.port, 1 << 16)
            if not data:  # nobody is connected outside
                time.sleep(0.1)
                continue
            *whole, rest = (rest + data).split(b"\n") if b"\n" in data else (rest + data,)
            yield from whole

    def hello(self):
        with open("/proc/sys/kernel/random/boot_id") as file:
            self.tell(boot=file.read().strip())

    def serve(self):
        self.hello()
        for line in self.lines():
            message = json.loads(line)
            if "hello" in message:
                self.hello()
            elif "run" in message or "connect" in message:
                kind = Connection if "connect" in message else Command
                try:
                    self.running[message["id"]] = kind(self, message)
                except OSError as error:
                    self.tell(id=message["id"], err=encode(f"{error}\n".encode()))
                    self.tell(id=message["id"], end=127)
            elif message["id"] in self.running:
                self.running[message["id"]].take(message)


def encode(data):
    return base64.b64encode(data).decode()


class Command:
    def __init__(self, agent, message):
        self.agent, self.number = agent, message["id"]
        self.process = subprocess.Popen(message["run"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        env=message["env"], cwd="/", start_new_session=True)
        self.pumps = [threading.Thread(target=self.pump, args=pair) for pair in ((self.process.stdout, "out"), (self.process.stderr, "err"))]
        for pump in self.pumps:
            pump.start()
        threading.Thread(target=self.end).start()

    def pump(self, stream, name):
        while data := os.read(stream.fileno(), PIECE):
            self.agent.tell(id=self.number, **{name: encode(data)})

    def end(self):
        for pump in self.pumps:
            pump.join()
        self.process.wait()
        self.agent.running.pop(self.number, None)
        self.agent.tell(id=self.number, end=self.process.returncode)

    def take(self, message):
        try:
            if "in" in message:
                os.write(self.process.stdin.fileno(), base64.b64decode(message["in"]))
            elif "close" in message:
                self.process.stdin.close()
            else:
                self.process.send_signal(message["signal"])
        except (OSError, ValueError):
            pass  # it has ended, or does not read


class Connection:
    def __init__(self, agent, message):
        self.agent, self.number = agent, message["id"]
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(message["connect"])
        threading.Thread(target=self.pump).start()

    def pump(self):
        try:
            while data := self.socket.recv(PIECE):
                self.agent.tell(id=self.number, out=encode(data))
        except OSError:
            pass
        self.agent.running.pop(self.number, None)
        self.socket.close()
        self.agent.tell(id=self.number, end=0)

    def take(self, message):
        try:
            if "in" in message:
                self.socket.sendall(base64.b64decode(message["in"]))
            else:
                self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


if __name__ == "__main__":
    sys.exit(Agent().serve())
