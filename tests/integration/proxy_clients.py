"""Clients and servers that go on for a while, for the proxy's tests of connection tracking: part of `proxy_world`.

`Conversations` keeps TCP connections by name and can send a segment out of the window of one; `Streams` keeps UDP
clients that send all the time. As a script, `proxy_clients.py ADDRESS PORT COUNT` sends pairs of datagrams at the same
moment from two CPUs through a new socket each, as resolvers do with A and AAAA, and prints how many answers were lost.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import mmap
import os
import socket
import struct
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager

Enter = Callable[[str], AbstractContextManager[None]]  # sockets made in there belong to that network namespace

TALK_PORT = 9000
FAR = 0x30000000  # further away than any window
_TCP_REPAIR, _TCP_REPAIR_QUEUE, _TCP_QUEUE_SEQ = 19, 20, 21
_RECEIVED, _SENT = 1, 2


class Conversations:
    """Connections to servers in pods at TALK_PORT. Servers answer with their pod's name; clients send their own.

    `protocol` is that of the socket; 0: TCP.
    """

    def __init__(self, inside: Enter, address_of: Callable[[str, int], str]) -> None:
        self._inside = inside
        self._address_of = address_of
        self._clients: dict[str, socket.socket] = {}
        self._servers: dict[str, socket.socket] = {}  # the other ends, by the same names
        self._raw: dict[tuple[str, int], socket.socket] = {}
        self._listeners: dict[tuple[str, int, int], socket.socket] = {}
        self._where: dict[str, str] = {}
        self._pods: dict[str, str] = {}

    def close(self) -> None:
        """End all connections. Servers stay."""
        while self._clients:
            self._clients.popitem()[1].close()
        self._servers.clear()

    def listen(self, pod: str, family: int, protocol: int = 0) -> None:
        if (pod, family, protocol) in self._listeners:
            return
        af = socket.AF_INET6 if family == 6 else socket.AF_INET
        with self._inside(pod):
            listener = self._listeners[pod, family, protocol] = socket.socket(af, socket.SOCK_STREAM, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((self._address_of(pod, family), TALK_PORT))
        listener.listen()
        threading.Thread(target=self._accept, args=(pod, listener), daemon=True).start()

    def _accept(self, pod: str, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                server, _ = listener.accept()
                threading.Thread(target=self._answer, args=(pod, server), daemon=True).start()

    def _answer(self, pod: str, server: socket.socket) -> None:
        with contextlib.suppress(OSError), server:
            name = server.recv(100).decode()
            self._servers[name] = server
            self._pods[name] = pod
            server.sendall(pod.encode())
            while server.recv(100):
                server.sendall(pod.encode())

    def dial(self, name: str, where: str, address: str, port: int, protocol: int = 0, source_port: int = 0) -> None:
        """Begin to connect; `exchange` returns the answering pod. `source_port` 0: the kernel chooses one."""
        with self._inside(where):
            client = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM, protocol)
        if source_port:
            client.bind(("", source_port))
        self._clients[name], self._where[name] = client, where
        client.setblocking(False)
        client.connect_ex((address, port))

    def hang_up(self, name: str) -> None:
        """End one connection."""
        self._clients.pop(name).close()

    def exchange(self, name: str, seconds: float = 30.0) -> str:
        """Send the client's name; return the pod that answers, or "reset", "refused" or "timeout"."""
        client = self._clients[name]
        client.settimeout(seconds)
        try:
            client.sendall(name.encode())  # waits until it is connected
            return client.recv(100).decode() or "end"
        except ConnectionResetError:
            return "reset"
        except ConnectionRefusedError:
            return "refused"
        except TimeoutError:
            return "timeout"

    def stray(self, name: str, end: str) -> None:
        """Send a segment far out of the window of a connection, from its "client" or its "server"."""
        sock = self._clients[name] if end == "client" else self._servers[name]
        where = self._where[name] if end == "client" else self._pods[name]
        sent, received = _numbers(sock)
        me, peer = sock.getsockname()[:2], sock.getpeername()[:2]
        if (where, sock.family) not in self._raw:
            with self._inside(where):
                self._raw[where, sock.family] = socket.socket(sock.family, socket.SOCK_RAW, socket.IPPROTO_RAW)
        with contextlib.suppress(PermissionError):  # the node's own is refused on its way out
            self._raw[where, sock.family].sendto(make_segment(me, peer, sent + FAR, received, push=True), (peer[0], 0))

    def begin_sctp(self, where: str, address: str, port: int) -> None:
        """Send the first packet of an association, an INIT (RFC 9260 3.3.2); whether the kernel has SCTP or not."""
        init = struct.pack("!BBHIIHHI", 1, 0, 20, 7, 4096, 1, 1, 7)
        packet = struct.pack("!HHI", 4321, port, 0)
        check = struct.pack("<I", _crc32c(packet + bytes(4) + init))
        with self._inside(where):
            sender = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_SCTP)
        with sender:
            sender.sendto(packet + check + init, (address, 0))

    def passes_untracked(self, pod: str, where: str, family: int) -> bool:
        """Whether a SYN-ACK of a connection that this node has not seen gets from a pod to `where`."""
        af = socket.AF_INET6 if family == 6 else socket.AF_INET
        with self._inside(pod):
            sender = socket.socket(af, socket.SOCK_RAW, socket.IPPROTO_RAW)
        with self._inside(where):
            receiver = socket.socket(af, socket.SOCK_RAW, socket.IPPROTO_TCP)
            with socket.socket(af, socket.SOCK_DGRAM) as probe:
                probe.connect((self._address_of(pod, family), 9))
                there = probe.getsockname()[0]
        with sender, receiver:
            receiver.settimeout(20)
            sender.sendto(
                make_segment((self._address_of(pod, family), 4321), (there, 1234), 1, 2, syn=True), (there, 0)
            )
            with contextlib.suppress(TimeoutError):
                while True:
                    data = receiver.recv(200)
                    if struct.pack("!HH", 4321, 1234) in data:
                        return True
            return False


def _numbers(sock: socket.socket) -> tuple[int, int]:
    """The numbers of the bytes that a TCP socket sends and expects next."""
    sock.setsockopt(socket.IPPROTO_TCP, _TCP_REPAIR, 1)
    try:
        found = []
        for queue in (_SENT, _RECEIVED):
            sock.setsockopt(socket.IPPROTO_TCP, _TCP_REPAIR_QUEUE, queue)
            found.append(sock.getsockopt(socket.IPPROTO_TCP, _TCP_QUEUE_SEQ) & 0xFFFFFFFF)
        return found[0], found[1]
    finally:
        sock.setsockopt(socket.IPPROTO_TCP, _TCP_REPAIR, -1)  # off, without probing the window


def make_segment(
    source: tuple[str, int],
    destination: tuple[str, int],
    number: int,
    acknowledged: int,
    *,
    push: bool = False,
    syn: bool = False,
) -> bytes:
    """A packet with a TCP segment that has ACK set."""
    af = socket.AF_INET6 if ":" in source[0] else socket.AF_INET
    here, there = socket.inet_pton(af, source[0]), socket.inet_pton(af, destination[0])
    flags = 0x10 | (0x08 if push else 0) | (0x02 if syn else 0)
    ports = struct.pack("!HH", source[1], destination[1])
    rest = struct.pack("!IIBBH", number & 0xFFFFFFFF, acknowledged & 0xFFFFFFFF, 5 << 4, flags, 4096)
    payload = b"stray" if push else b""
    length = 20 + len(payload)
    pseudo = here + there + struct.pack("!II", length, socket.IPPROTO_TCP)
    check = _checksum(pseudo + ports + rest + bytes(4) + payload)
    segment = ports + rest + struct.pack("!HH", check, 0) + payload
    if af == socket.AF_INET:
        head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + length, 0, 0, 64, socket.IPPROTO_TCP, 0)
    else:
        head = struct.pack("!IHBB", 6 << 28, length, socket.IPPROTO_TCP, 64)
    return head + here + there + segment


def _checksum(data: bytes) -> int:
    total = sum(struct.unpack(f"!{(len(data) + 1) // 2}H", data + bytes(len(data) % 2)))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def _crc32c(data: bytes) -> int:
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
    return value ^ 0xFFFFFFFF


class Streams:
    """UDP clients that send a numbered datagram every few milliseconds from one socket, and note who answers which."""

    def __init__(self, inside: Enter) -> None:
        self._inside = inside
        self._streams: dict[str, _Stream] = {}

    def close(self) -> None:
        while self._streams:
            self._streams.popitem()[1].stop()

    def start(self, name: str, where: str, address: str, port: int) -> None:
        with self._inside(where):
            sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)
        sock.connect((address, port))
        self._streams[name] = _Stream(sock)

    def sent(self, name: str) -> int:
        """The number of datagrams sent so far."""
        return self._streams[name].sent

    def answered(self, name: str) -> int:
        """The number of datagrams, from the first on, that were all answered so far."""
        return self._streams[name].answered()

    def stop(self, name: str) -> list[str]:
        """The pod that answered each datagram; "" for none."""
        return self._streams.pop(name).stop()


class _Stream:
    def __init__(self, sock: socket.socket) -> None:
        self.sent = 0
        self._answers: dict[int, str] = {}
        self._socket = sock
        self._ends = threading.Event()
        self._sender = threading.Thread(target=self._send, daemon=True)
        self._receiver = threading.Thread(target=self._receive, daemon=True)
        sock.settimeout(0.1)
        self._sender.start()
        self._receiver.start()

    def _send(self) -> None:
        while not self._ends.wait(0.004):
            for _ in range(3):  # the kernel reports the refusal of an earlier one to the next who sends
                with contextlib.suppress(OSError):
                    self._socket.send(str(self.sent).encode())
                    break
            self.sent += 1

    def _receive(self) -> None:
        last = time.monotonic()
        while not self._is_over(time.monotonic() - last):
            with contextlib.suppress(OSError):
                pod, _, rest = self._socket.recv(200).decode().partition(" ")
                self._answers[int(rest.rpartition(" ")[2])] = pod
                last = time.monotonic()

    def _is_over(self, silent_seconds: float) -> bool:
        """When the last is answered, or nothing has come for longer than a busy machine pauses."""
        if not self._ends.is_set() or self._sender.is_alive():
            return False
        return self.sent - 1 in self._answers or silent_seconds > 5

    def answered(self) -> int:
        """The number of datagrams, from the first on, that were all answered."""
        return next(number for number in itertools.count() if number not in self._answers)

    def stop(self) -> list[str]:
        self._ends.set()
        self._sender.join()
        self._receiver.join()
        self._socket.close()
        return [self._answers.get(number, "") for number in range(self.sent)]


# --- Pairs -----------------------------------------------------------------------------------------------

_AT_ONCE = 100  # so few that no socket of a pod overflows


def send_pairs(address: str, port: int, count: int) -> dict[str, int]:
    """`lost` answers, and of how many pairs the two datagrams were answered by `different` pods."""
    result: Counter[str] = Counter(lost=0, different=0)
    for _ in range(count // _AT_ONCE):
        sockets = [
            socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)
            for _ in range(_AT_ONCE)
        ]
        for sock in sockets:
            sock.connect((address, port))
        _send_together(sockets)
        deadline = time.monotonic() + 20
        for sock in sockets:
            with sock:
                answers = []
                with contextlib.suppress(TimeoutError, ConnectionRefusedError):
                    while len(answers) < 2:
                        sock.settimeout(max(deadline - time.monotonic(), 0.01))
                        answers.append(sock.recv(100))
                result["lost"] += 2 - len(answers)
                result["different"] += len(set(answers)) == 2
    return dict(result)


def _send_together(sockets: list[socket.socket]) -> None:
    """Send from two processes, each on its CPU, that wait for each other before every datagram."""
    with mmap.mmap(-1, mmap.PAGESIZE) as shared:
        child = os.fork()
        me = 1 if child == 0 else 0
        cpus = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cpus[me % len(cpus)]})
        for turn, sock in enumerate(sockets, 1):
            shared[me * 64 : me * 64 + 4] = struct.pack("=I", turn)
            while struct.unpack_from("=I", shared, (1 - me) * 64)[0] < turn:
                if len(cpus) == 1:
                    os.sched_yield()
            with contextlib.suppress(OSError):  # it is lost, then; the other process must not wait for ever
                sock.send(b"?")
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
        os.sched_setaffinity(0, set(cpus))


if __name__ == "__main__":
    sys.stdout.write(json.dumps(send_pairs(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
