"""The sockets of the built-in servers, on the machine's loopback."""

from __future__ import annotations

import os
import resource
import socket
import time

import pytest

from bridgehead.kubelet.runtimes.standins import stream_server
from tests.forks import fork

pytestmark = pytest.mark.integration

PATIENCE_SECONDS = 20


class Counted:
    """A session that answers each byte with the number of rounds of the server's loop."""

    closing = False
    busy = False

    def __init__(self, rounds):
        self.rounds = rounds

    def receive(self, data, *, draining):
        return b"%d\n" % len(self.rounds)


def serve_with_few_descriptors():
    """Serve on a port that is written to descriptor 1, with room for two connections."""
    rounds = []
    server = stream_server.StreamServer(after_round=lambda: rounds.append(0))
    port = server.listen(0, lambda peer: Counted(rounds))

    def started():
        free = os.dup(0)
        os.close(free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (free + 2, free + 2))
        os.write(1, b"%d" % port)

    raise SystemExit(server.serve(started))


def ask(connection):
    connection.sendall(b"?")
    return int(connection.makefile("rb").readline())


def test_connections_wait_while_there_are_no_descriptors():
    reader, writer = os.pipe()
    null = os.open(os.devnull, os.O_RDWR)
    server = fork(f"{__name__}:serve_with_few_descriptors", streams=(null, writer, 2))
    os.close(writer)
    os.close(null)
    try:
        port = int(os.read(reader, 10))
        connections = [socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS) for _ in range(3)]
        first, second, third = connections
        ask(first)
        ask(second)
        third.sendall(b"?")
        before, begin = ask(first), time.monotonic()
        asked = 200
        for _ in range(asked):
            rounds = ask(first) - before
        # The listener is tried again now and then, and does not keep the server busy.
        tried = (time.monotonic() - begin) / stream_server.PAUSE_SECONDS
        assert rounds <= asked + 3 * (tried + 2)
        second.close()
        assert int(third.makefile("rb").readline())
        for connection in connections:
            connection.close()
    finally:
        os.close(reader)
        server.send_signal(15)
        assert server.wait(PATIENCE_SECONDS) == 0
