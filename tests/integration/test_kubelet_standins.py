"""The sockets of the built-in servers, on the machine's loopback."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import socket
import threading
import time

import pytest

from bridgehead.standins.programs import relay, stream_server
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


class Late:
    """A session that logs what it receives. "l": answered when standard input has a byte; "f": there is no process for
    that; "q": the last answer; others are echoed."""

    busy = False

    def __init__(self, output):
        self.output = output
        self.closing = False

    def receive(self, data, *, draining):
        self.output.add(data.decode())
        if data == b"f":
            os.fork = fail_to_fork
        if data in (b"l", b"f"):
            return stream_server.LateAnswer(self.compute)
        self.closing = data == b"q"
        return data

    def compute(self):
        self.output.add("late")
        return os.read(0, 1)


def fail_to_fork():
    raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))


def serve_late():
    """Serve on a port that is written to descriptor 1, before the log."""
    output = stream_server.OutputBuffer()
    server = stream_server.StreamServer(after_round=output.flush)
    port = server.listen(0, lambda peer: Late(output))

    def write_port() -> None:
        os.write(1, b"%d\n" % port)

    raise SystemExit(server.serve(write_port))


def test_late_answers_hold_no_other_connection_and_are_logged_once():
    log_reader, log_writer = os.pipe()
    input_reader, input_writer = os.pipe()
    server = fork(f"{__name__}:serve_late", streams=(input_reader, log_writer, 2))
    os.close(log_writer)
    os.close(input_reader)
    with open(log_reader, encoding="ascii") as log, contextlib.ExitStack() as opened:
        try:
            address = ("127.0.0.1", int(log.readline()))
            connections = [socket.create_connection(address, PATIENCE_SECONDS) for _ in range(4)]
            late, other, refused, last = map(opened.enter_context, connections)
            late.sendall(b"l")
            assert log.readline() == "l\n"
            other.sendall(b"q")
            assert [other.recv(1), other.recv(1)] == [b"q", b""]
            os.write(input_writer, b"!")
            assert [late.recv(1), late.recv(1)] == [b"!", b""]
            refused.sendall(b"f")
            assert refused.recv(1) == b""
            last.sendall(b"q")
            assert last.recv(1) == b"q"
        finally:
            os.close(input_writer)
            server.send_signal(15)
            assert server.wait(PATIENCE_SECONDS) == 0
        *first_two, third, fourth = log.read().split()
        assert (sorted(first_two), third, fourth) == (["late", "q"], "f", "q")  # the late answer has its own process


@contextlib.contextmanager
def relayed():
    """A relay in a thread, and the listener that it leads to."""
    listener = relay.listen(0)
    with socket.create_server(("127.0.0.1", 0)) as target:
        target.settimeout(PATIENCE_SECONDS)
        made = relay.Relay(listener, *target.getsockname())
        ended = threading.Event()

        def run():
            while not ended.is_set():
                made.step(0.05)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield listener.getsockname()[1], target
        finally:
            ended.set()
            thread.join()
            listener.close()


def test_a_relay_passes_everything_on_in_both_directions():
    content = os.urandom(3 << 20)  # more than the sockets' buffers
    with relayed() as (port, target), socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS) as client:
        server, _ = target.accept()
        with server:
            server.settimeout(PATIENCE_SECONDS)
            for sender, receiver in ((client, server), (server, client)):
                sending = threading.Thread(target=sender.sendall, args=(content,))
                sending.start()
                received = bytearray()
                while len(received) < len(content):
                    received += receiver.recv(1 << 16)
                sending.join()
                assert received == content
            server.sendall(b"last")
            server.shutdown(socket.SHUT_WR)
            assert client.recv(10) == b"last"
            assert client.recv(10) == b"", "the end is passed on, too"


def test_a_relay_closes_connections_that_it_cannot_pass_on(capfd):
    with relayed() as (port, target):
        target.close()
        for _ in range(2):
            with socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS) as client:
                assert client.recv(10) == b""
    assert capfd.readouterr().err.count("cannot reach the lab's balancer") == 1, "it is reported once"
