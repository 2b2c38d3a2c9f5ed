"""BFD against BIRD's BFD, over a real link."""

from __future__ import annotations

import contextlib
import ctypes
import select
import socket
import threading
from collections.abc import Iterator

import pytest

from bridgehead.balancer.detection.bfd.engine import BfdEngine
from bridgehead.balancer.detection.bfd.messages import Change, Neighbor, SessionSettings, read_change, request_sessions
from bridgehead.balancer.detection.bfd.packets import ControlPacket, Diagnostic, State, render_packet
from bridgehead.balancer.detection.bfd.session import Timing
from bridgehead.balancer.detection.detector_messages import BEAT_SECONDS, open_channel
from bridgehead.balancer.detection.process import Loop

from .bird_router import ROUTER4, ROUTER6, Bird, cut, eventually, heal, make_fabric, node_address
from .namespaced import in_namespace, sh

pytestmark = pytest.mark.integration

FAST = SessionSettings(Timing(0.1, 0.1, 10))  # a second without a packet: a busy machine may pause for so long
PATIENT = SessionSettings(Timing(1, 1, 10))  # stays up on a machine whose processors are busy with packets
# BIRD sends over several hops with the kernel's default TTL of 64, FRR with 255.
FAST_MULTI_HOP = FAST._replace(minimum_ttl=64)


class Sessions:
    """The engine in the detector's loop, in a thread, and the speaker's end of its channel."""

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self._channel, theirs = open_channel()
        self._loop = threading.Thread(target=Loop(theirs, lambda report: [BfdEngine(report)]).run)
        self._loop.start()
        self._is_ended = threading.Event()
        self._sending = threading.Lock()  # a channel is for one thread
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def want(self, wanted: dict[Neighbor, SessionSettings]) -> None:
        with self._sending:
            self._channel.send(request_sessions(wanted))

    def close(self) -> None:
        self._is_ended.set()
        self._reader.join()
        self._channel.close()
        self._loop.join()

    def states(self) -> dict[Neighbor, State]:
        return {change.neighbor: change.state for change in self.changes}

    def _read(self) -> None:
        while not self._is_ended.is_set():
            with self._sending:
                self._channel.beat()
            select.select([self._channel], [], [], BEAT_SECONDS)
            self.changes += [read_change(message) for message in self._channel.receive() if message]


@contextlib.contextmanager
def running() -> Iterator[Sessions]:
    """Sessions in the namespace node1, into which this thread moves for good."""
    with open("/run/netns/node1") as namespace:
        if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), 0):
            raise OSError(ctypes.get_errno(), "setns")
    sessions = Sessions()
    try:
        yield sessions
    finally:
        sessions.close()


def conf(*neighbors: str) -> str:
    return (
        'protocol bfd { interface "eth0" { min rx interval 100 ms; min tx interval 100 ms; multiplier 10; };\n'
        "multihop { min rx interval 100 ms; min tx interval 100 ms; multiplier 10; };\n" + "\n".join(neighbors) + "}\n"
    )


@in_namespace
def test_sessions_with_bird_come_up_fail_and_heal() -> None:
    make_fabric(1)
    node4, node6 = node_address(1), node_address(1, 6)
    bird_conf = conf(
        f'neighbor {node4} dev "eth0" local {ROUTER4};',
        f'neighbor {node6} dev "eth0" local {ROUTER6};',
        f"neighbor {node4} local {ROUTER4} multihop;",
    )
    over_v4, over_v6, multi_hop = Neighbor(ROUTER4), Neighbor(ROUTER6), Neighbor(ROUTER4, node4, is_multi_hop=True)
    with Bird(bird_conf) as bird, running() as sessions:
        sessions.want({over_v4: FAST, over_v6: FAST, multi_hop: FAST_MULTI_HOP})
        eventually(lambda: set(sessions.states().values()) == {State.UP} and len(sessions.states()) == 3, "all are up")
        eventually(lambda: bird.ask("show", "bfd", "sessions").count("Up") == 3, "BIRD sees them up")

        # Other parameters, by a poll sequence.
        before = len(sessions.changes)
        sessions.want({over_v4: SessionSettings(Timing(0.05, 0.2, 10)), over_v6: FAST, multi_hop: FAST_MULTI_HOP})
        eventually(lambda: "0.200" in bird.ask("show", "bfd", "sessions"), "BIRD sends more slowly")
        assert len(sessions.changes) == before

        # The router is cut off without its link going down.
        cut("router")
        eventually(lambda: set(sessions.states().values()) == {State.DOWN}, "all are down")
        assert {change.diagnostic for change in sessions.changes[-3:]} <= {
            Diagnostic.DETECTION_TIME_EXPIRED,
            Diagnostic.NEIGHBOR_SIGNALED_DOWN,
        }
        heal("router")
        eventually(lambda: set(sessions.states().values()) == {State.UP}, "all are up again")

        # The end of one session is no failure for the others.
        sessions.want({over_v6: FAST})
        eventually(lambda: bird.bfd_states() == {node6: "Up", node4: "Down"}, "BIRD sees the others ended")
        # BIRD ends a session.
        bird.reconfigure(conf(f'neighbor {node4} dev "eth0" local {ROUTER4};'))
        eventually(lambda: sessions.states()[over_v6] == State.DOWN, "the last one is down")
        assert (
            sessions.changes[-1].is_ended_by_remote
            or sessions.changes[-1].diagnostic == Diagnostic.DETECTION_TIME_EXPIRED
        )


@in_namespace
def test_foreign_packets_and_floods_change_nothing() -> None:
    make_fabric(2)
    with Bird(conf(f'neighbor {node_address(1)} dev "eth0" local {ROUTER4};')), running() as sessions:
        neighbor = Neighbor(ROUTER4)
        sessions.want({neighbor: PATIENT})
        eventually(lambda: sessions.states() == {neighbor: State.UP}, "the session is up")
        before = list(sessions.changes)  # by way of Init, if BIRD spoke first
        down = render_packet(ControlPacket(State.DOWN, 7, 0, 1, 1, 1)).hex()
        # Packets by the thousand: from the neighbour's own address but from farther away, from another node, and
        # garbage.
        floods = [("node2", 255, down), ("router", 254, down), ("router", 255, "20c0"), ("node2", 255, "ff" * 99)]
        flood = (
            "import socket, sys\n"
            "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
            "s.setsockopt(0, socket.IP_TTL, int(sys.argv[1]))\n"
            "for n in range(5000):\n"
            "    try: s.sendto(bytes.fromhex(sys.argv[2]), (sys.argv[3], 3784))\n"
            "    except OSError: pass\n"
        )
        for namespace, ttl, data in floods:
            sh(f"nsenter --net=/run/netns/{namespace} python3 -c '{flood}' {ttl} {data} {node_address(1)}")
        assert sessions.states() == {neighbor: State.UP}
        assert sessions.changes == before


@in_namespace
def test_a_port_that_is_taken_is_reported() -> None:
    make_fabric(1)
    with running() as sessions, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("", 3784))
        sessions.want({Neighbor(ROUTER4): FAST, Neighbor(ROUTER6, "fd00:b::1"): FAST, Neighbor(ROUTER6): FAST})
        eventually(lambda: len(sessions.changes) == 2, "two reports")
        assert [change.error for change in sessions.changes] == [
            "cannot receive BFD packets at UDP port 3784: Address already in use",
            "cannot send from fd00:b::1 to fd00:a::1: Cannot assign requested address",
        ]
