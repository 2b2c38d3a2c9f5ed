"""Measures connections between pods of a `proxy_world`, from inside it; `datapath.py` starts it and reads its JSON.

    datapath_worker.py SERVICE-ADDRESS ROUNDS SECONDS PORT POD...

It has nothing but loops around system calls, and uses no other module of ours: what is measured is the kernel's work.

The direct path leads through a node of its own, of the same shape, which has no Services: where iptables has a rule for
each of them, a connection to a pod itself passes all of these, and would be no measure. IPVS would disturb the measure,
too: it translates a pod's answers whenever the client's port was used through the Service of late, even if the client
now asks the pod itself, and then waits in vain (kubernetes #90042, #107249).
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import json
import os
import select
import signal
import socket
import statistics
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

CHUNK = 512 * 1024
SERVICE_PORT = 80
CLIENT = "pod1"
BARE = "bare-"  # what the names of the other node and its pods begin with
GATEWAY = "169.254.1.1"
NODE = "10.0.0.201"
PATIENCE = struct.pack("ll", 10, 0)  # seconds; whoever waits longer raises an OSError
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: close at once, without TIME_WAIT

AddressPort = tuple[str, int]


class Route(NamedTuple):
    client: str  # the namespace it begins in
    targets: list[AddressPort]


def main(service: str, rounds: int, seconds: float, port: int, pods: Sequence[str]) -> dict[str, list[Any]]:
    """Return the results of each round, by path."""
    for name, value in (("tcp_timeout_close", 1), ("tcp_timeout_time_wait", 1)):
        with contextlib.suppress(OSError):  # so that the table of connections does not fill up
            write(f"net/netfilter/nf_conntrack_{name}", value)
    make_bare_node((CLIENT, *pods))
    listeners = []
    for prefix in ("", BARE):
        for pod in pods:
            enter(prefix + pod)
            listener = socket.create_server(("", port), backlog=4096)
            listener.setblocking(False)
            listeners.append(listener)
        enter(prefix + CLIENT)
        with contextlib.suppress(OSError):
            write("net/ipv4/ip_local_port_range", "1024 65535")
    paths = {
        "direct": Route(BARE + CLIENT, [(address_of(pod), port) for pod in pods]),
        "service": Route(CLIENT, [(service, SERVICE_PORT)]),
    }
    measured: dict[str, list[dict[str, float]]] = {name: [] for name in paths}
    with servers(listeners, os.cpu_count() or 1):
        for route in paths.values():
            measure(route, seconds)  # warms everything
        for number in range(rounds):
            for name in sorted(paths, reverse=bool(number % 2)):
                measured[name].append(measure(paths[name], seconds))
    return measured


def make_bare_node(pods: Sequence[str]) -> None:
    """Make a node with pods that have the addresses and the links of those of `proxy_world`."""
    ip(f"netns add {BARE}", *(f"netns add {BARE}{pod}" for pod in pods))
    ip(f"-n {BARE} address add {NODE}/32 dev lo", f"-n {BARE} link set lo up")
    for pod in pods:
        ip(f"-n {BARE} link add {pod} up type veth peer name eth0 netns {BARE}{pod}")
        gateway = f"via {GATEWAY} dev eth0"
        mac = json.loads(ip(f"-n {BARE} -json link show dev {pod}"))[0]["address"]
        ip(
            f"-n {BARE}{pod} link set eth0 up",
            f"-n {BARE}{pod} address add {address_of(pod)}/32 dev eth0",
            f"-n {BARE}{pod} neighbour add {GATEWAY} lladdr {mac} dev eth0 nud permanent",
            f"-n {BARE}{pod} route add default {gateway} onlink",
            f"-n {BARE} route add {address_of(pod)}/32 dev {pod}",
        )
    enter(BARE)
    write("net/ipv4/ip_forward", 1)


def ip(*commands: str) -> str:
    return "".join(
        subprocess.run(["ip", *command.split()], check=True, stdout=subprocess.PIPE, text=True).stdout
        for command in commands
    )


def write(name: str, value: object) -> None:
    """A setting of the namespace this process is in."""
    with open(f"/proc/sys/{name}", "w", encoding="ascii") as file:
        file.write(f"{value}\n")


def address_of(pod: str) -> str:
    return f"10.244.1.{pod.removeprefix('pod')}"


def measure(route: Route, seconds: float) -> dict[str, float]:
    """New connections each second, microseconds until one is answered, Gbit/s of one connection."""
    enter(route.client)
    targets = route.targets
    rate = sum(in_processes(lambda: connect_for(seconds, targets), os.cpu_count() or 1))
    times = latencies(seconds, targets)
    return {
        "rate": rate,
        "median": statistics.median(times),
        "p99": statistics.quantiles(times, n=100)[98],
        "throughput": send_for(seconds, targets[0]),
    }


def connect_for(seconds: float, targets: Sequence[AddressPort]) -> float:
    begun = time.perf_counter()
    for count, target in enumerate(itertools.cycle(targets), 1):
        ask(target)
        if count % 64 == 0 and time.perf_counter() > begun + seconds:
            return count / (time.perf_counter() - begun)
    raise RuntimeError("no target to connect to")


def latencies(seconds: float, targets: Sequence[AddressPort]) -> list[float]:
    """Microseconds that each connection took, one after the other."""
    times = []
    begun = time.perf_counter()
    end = begun + seconds
    for target in itertools.cycle(targets):
        ask(target)
        now = time.perf_counter()
        times.append((now - begun) * 1e6)
        begun = now
        if now > end:
            break
    return times


def send_for(seconds: float, target: AddressPort) -> float:
    """Gbit/s, until the other side has read everything."""
    block = memoryview(bytes(CHUNK))
    sent = 0
    with socket.socket() as sock:
        be_patient(sock)
        sock.connect(target)
        sock.sendall(b"much")
        begun = time.perf_counter()
        while time.perf_counter() < begun + seconds:
            sent += sock.send(block)
        sock.shutdown(socket.SHUT_WR)
        sock.recv(1)
        return sent * 8 / 1e9 / (time.perf_counter() - begun)


def ask(target: AddressPort) -> None:
    """Open a connection, have one byte answered, reset it."""
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        be_patient(sock)
        sock.connect(target)
        sock.send(b"?")
        sock.recv(1)


def be_patient(sock: socket.socket) -> None:
    """Wait for the other side, but not forever; without a system call more for each operation."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, PATIENCE)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, PATIENCE)


# --- The other side --------------------------------------------------------------------------------------


def serve(listeners: Sequence[socket.socket]) -> None:
    """Answer what is one byte, read everything else until it ends. Never returns."""
    poll = select.epoll()
    by_number: dict[int, socket.socket] = {}
    for listener in listeners:
        by_number[listener.fileno()] = listener
        poll.register(listener, select.EPOLLIN | select.EPOLLEXCLUSIVE)
    connections: dict[int, socket.socket] = {}
    buffer = bytearray(CHUNK)
    while True:
        for number, _ in poll.poll():
            if number in by_number:
                with contextlib.suppress(BlockingIOError):
                    while True:
                        sock, _ = by_number[number].accept()
                        connections[sock.fileno()] = sock
                        poll.register(sock, select.EPOLLIN)
                continue
            sock = connections[number]
            try:
                count = sock.recv_into(buffer)
                if count == 1:
                    sock.send(b"!")
            except OSError:
                count = 0
            if not count:
                del connections[number]
                sock.close()


@contextlib.contextmanager
def servers(listeners: Sequence[socket.socket], number: int) -> Iterator[None]:
    children = []
    for _ in range(number):
        child = os.fork()
        if not child:
            serve(listeners)
        children.append(child)
    try:
        yield
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def in_processes(work: Callable[[], float], number: int) -> list[float]:
    """Run `work` in so many processes at the same time, and return the results. Raises OSError when one of them did."""
    children = []
    for _ in range(number):
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            result: float | str = "a client ended early"
            try:
                result = work()
            except OSError as error:
                result = reason(error)
            finally:
                os.write(writer, json.dumps(result).encode())
                os._exit(0)
        os.close(writer)
        children.append((child, reader))
    results = []
    for child, reader in children:
        results.append(json.loads(os.read(reader, 1000)))
        os.close(reader)
        os.waitpid(child, 0)
    for result in results:
        if isinstance(result, str):
            raise OSError(result)
    return results


def reason(error: Exception) -> str:
    """Return a description of the error."""
    return "a connection waited too long" if isinstance(error, BlockingIOError) else str(error)


def enter(pod: str) -> None:
    """Sockets made from now on belong to the pod."""
    libc: Any = ctypes.CDLL(None, use_errno=True)
    with open(f"/run/netns/{pod}") as namespace:
        if libc.setns(namespace.fileno(), 0x40000000):
            raise OSError(ctypes.get_errno(), f"cannot enter {pod}")


if __name__ == "__main__":
    try:
        found: dict[str, Any] = main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]), sys.argv[5:])
    except (OSError, subprocess.CalledProcessError) as error:
        found = {"failed": reason(error)}
    json.dump(found, sys.stdout)
