"""The state of network namespaces, read from this machine's kernel."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar
from unittest import mock

import pytest

from bridgehead.insight.facts.network_local_reading import collect_state
from bridgehead.insight.facts.network_reading import read_network
from bridgehead.insight.facts.network_remote_reading import read_by_programs
from bridgehead.insight.facts.network_state import AddressPort, Interface, Listening, Route, Section
from bridgehead.insight.forked_namespace import ForkedNamespace
from bridgehead.insight.network_namespaces import Completed, NotEntered, OnlyPrograms
from bridgehead.network import conntrack_listing
from bridgehead.network.conntrack import Conntrack, Flow, FlowSocket

from .namespaced import in_namespace, sh

pytestmark = [pytest.mark.integration, pytest.mark.needs("ip", "nft", "iptables-nft", "conntrack")]

Argument = TypeVar("Argument")
Result = TypeVar("Result")

HERE = ForkedNamespace("here")
RULES = """
table ip test {
    chain input { type filter hook input priority 0; ct state new counter accept; }
    chain nat { type nat hook output priority -100; ip daddr 192.0.2.1 tcp dport 80 dnat to 127.0.0.1:8080; }
}
"""
ZONES = """
table ip test {
    chain output { type filter hook output priority -300; udp dport 53 ct zone set 7; }
    chain input { type filter hook input priority 0; ct state new accept; }
}
"""


def set_up() -> None:
    sh("ip link add web0 type bridge && ip address add 10.9.0.1/24 dev web0 && ip link set web0 up")
    sh("ip route add 10.8.0.0/16 via 10.9.0.2 table 100 metric 5 && ip route add blackhole 10.7.0.0/16")
    sh(f"nft -f - <<'EOF'\n{RULES}\nEOF")
    sh("iptables-nft -t nat -A OUTPUT -d 192.0.2.9/32 -j ACCEPT")


@contextlib.contextmanager
def connected(port: int = 8080) -> Iterator[int]:
    """A connection to 192.0.2.1:80, which is translated to a listener here, and one that nobody has accepted."""
    sh("ip route add 192.0.2.0/24 dev lo")
    with (
        socket.create_server(("127.0.0.1", port)) as listener,
        socket.create_connection(("192.0.2.1", 80), timeout=60) as client,
        listener.accept()[0] as accepted,
        socket.create_connection(("127.0.0.1", port), timeout=60),
    ):
        client.sendall(b"1")
        assert accepted.recv(1)
        yield client.getsockname()[1]


class OnlyProgramsHere:
    """This namespace, as one in which only programs can run; `missing` are not in its image."""

    name = "here"

    def __init__(self, *missing: str) -> None:
        self._missing = missing

    async def run(self, argv: Sequence[str], *, stdin: bytes = b"", seconds: float = 60) -> Completed:
        if argv[0] in self._missing:
            return Completed(127, b"", b"not found")
        return await HERE.run(argv, stdin=stdin, seconds=seconds)

    async def call(self, function: Callable[[Argument], Result], argument: Argument, *, seconds: float = 60) -> Result:
        raise OnlyPrograms("only programs")


@in_namespace
async def test_all_sections_are_read_and_nothing_changes() -> None:
    set_up()
    with connected() as port:
        before = sh("nft list ruleset")
        state = await read_network(HERE)
        assert sh("nft list ruleset") == before

    assert {section: why for section, why in state.unseen.items() if section != Section.IPTABLES_LEGACY} == {}
    assert b'"name": "test"' in state.nftables
    assert b"-A OUTPUT -d 192.0.2.9/32 -j ACCEPT" in state.iptables[4]
    flow = next(each for each in state.connections if each.destination == AddressPort("192.0.2.1", 80))
    assert (flow.protocol, flow.state, flow.is_assured, flow.is_unreplied) == ("tcp", "ESTABLISHED", True, False)
    assert flow.source.port == flow.reply_destination.port == port
    assert flow.reply_source == AddressPort("127.0.0.1", 8080)
    assert flow.timeout is not None
    listening = [each for each in state.listeners if each.port == 8080]
    assert [each.address for each in listening] == ["127.0.0.1"]
    assert listening[0].backlog == 1
    assert listening[0].program
    assert Interface(name="web0", index=socket.if_nametoindex("web0"), mtu=1500, is_up=True, addresses=("10.9.0.1/24",),
                     kind="bridge") in [only_ipv4(each) for each in state.interfaces]  # fmt: skip
    assert Route(destination="10.8.0.0/16", device="web0", via="10.9.0.2", table="100", metric=5) in state.routes
    assert Route(destination="10.7.0.0/16", kind="blackhole") in state.routes
    assert Route(destination="10.9.0.1/32", device="web0", kind="local", table="local", source="10.9.0.1") in (
        state.routes
    )
    assert state.sysctls["net/ipv4/ip_forward"] == "0"
    assert "net/ipv4/conf/web0/rp_filter" in state.sysctls


def only_ipv4(interface: Interface) -> Interface:
    addresses = tuple(each for each in interface.addresses if ":" not in each)
    return Interface(name=interface.name, index=interface.index, mtu=interface.mtu, is_up=interface.is_up,
                     addresses=addresses, kind=interface.kind)  # fmt: skip


@in_namespace
async def test_an_empty_namespace_stays_empty() -> None:
    state = await read_network(HERE)
    assert state.connections == state.listeners == ()
    assert sh("nft list ruleset") == ""
    assert (state.iptables, state.iptables_legacy) == ({4: b"", 6: b""}, {})


@in_namespace
async def test_only_the_wanted_sections_are_read() -> None:
    state = await read_network(HERE, [Section.ROUTES])
    assert state.sysctls == {}
    assert state.nftables == b""
    assert state.unseen == {}


@in_namespace
async def test_programs_give_the_same_state() -> None:
    set_up()
    with connected():
        sections = [each for each in Section if each is not Section.IPTABLES_LEGACY]
        by_call = await read_network(HERE, sections)
        by_programs = await read_network(OnlyProgramsHere(), sections)
    assert by_programs.unseen == by_call.unseen == {}
    assert by_programs.nftables == by_call.nftables
    assert set(by_programs.routes) == set(by_call.routes)
    assert by_programs.interfaces == by_call.interfaces
    assert by_programs.sysctls == {**by_call.sysctls, **changing(by_programs.sysctls)}
    assert {(each.source, each.reply_source, each.state) for each in by_programs.connections} == {
        (each.source, each.reply_source, each.state) for each in by_call.connections
    }
    assert by_programs.listeners == tuple(
        Listening(protocol=each.protocol, address=each.address, port=each.port, backlog=each.backlog)
        for each in by_call.listeners
    )


def changing(sysctls: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in sysctls.items() if name.endswith("_count")}


@in_namespace
async def test_a_missing_program_is_a_reason() -> None:
    state = await read_by_programs(OnlyProgramsHere("nft", "ip", "cat"), list(Section))
    assert state.unseen[Section.NFTABLES] == "there is no nft in the image"
    assert state.unseen[Section.INTERFACES] == state.unseen[Section.ROUTES] == "there is no ip in the image"
    assert state.unseen[Section.LISTENERS] == "there is no cat in the image"
    assert Section.SYSCTLS not in state.unseen


@in_namespace
async def test_a_namespace_that_cannot_be_entered_is_the_reason_for_each_section() -> None:
    def refuse() -> None:
        raise NotEntered("the node has gone")

    state = await read_network(ForkedNamespace("node node1", check=refuse), [Section.ROUTES, Section.NFTABLES])
    assert state.unseen == {Section.ROUTES: "the node has gone", Section.NFTABLES: "the node has gone"}


@in_namespace
def test_flows_with_zones_counters_and_times_are_as_conntrack_prints_them() -> None:
    for name in ("acct", "timestamp"):
        with contextlib.suppress(OSError), open(f"/proc/sys/net/netfilter/nf_conntrack_{name}", "w") as file:
            file.write("1")
    sh("ip route add 192.0.2.0/24 dev lo")
    sh(f"nft -f - <<'EOF'\n{ZONES}\nEOF")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.sendto(b"?", ("127.0.0.1", 53))
        source = client.getsockname()[1]
    flows, is_cut = conntrack_listing.list_flows(10)
    assert not is_cut
    flow = next(each for each in flows if each.destination == ("127.0.0.1", 53) and each.zone == 7)
    assert (flow.protocol, flow.source[1], flow.state, flow.is_unreplied) == ("udp", source, "", True)
    printed = sh("conntrack -L -o extended")
    assert f"dst=127.0.0.1 sport={source} dport=53" in printed
    if "packets=" in printed:
        assert flow.sent is not None
        assert flow.sent[0] == 1
    if flow.started is not None:
        assert abs(flow.started - time.time()) < 600
    assert conntrack_listing.list_flows(0) == ([], True)
    with Conntrack() as conntrack:
        assert conntrack.remove(4, "udp", is_stale=lambda flow: True) >= 1


@in_namespace
def test_queries_of_few_flows_share_one_walk_through_the_table() -> None:
    sh("ip link set lo up && nft add table inet test")
    sh("nft 'add chain inet test input { type filter hook input priority 0; }'")
    sh("nft add rule inet test input ct state new accept")
    for af, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        with socket.socket(af, socket.SOCK_DGRAM) as client:
            client.sendto(b"?", (address, 53))
    walked: list[int] = []
    dump = FlowSocket.dump

    def counted(self: FlowSocket, kind: int, af: int, body: bytes) -> Iterator[memoryview]:
        walked.append(af)
        return dump(self, kind, af, body)

    def is_stale(flow: Flow) -> bool:
        return flow.destination[1] == 53

    with mock.patch.object(FlowSocket, "dump", counted), Conntrack() as conntrack:
        with conntrack.one_walk():
            removed = {
                (protocol, family): conntrack.remove(family, protocol, is_stale=is_stale)
                for protocol in ("tcp", "udp")
                for family in (4, 6)
            }
        assert removed == {("tcp", 4): 0, ("tcp", 6): 0, ("udp", 4): 1, ("udp", 6): 1}
        assert walked == [socket.AF_UNSPEC]
        assert conntrack.remove(4, "udp", is_stale=is_stale) == 0


@in_namespace
async def test_calls_and_programs_are_bounded() -> None:
    with pytest.raises(NotEntered, match="no result within"):
        await HERE.call(time.sleep, 600, seconds=0.1)
    with pytest.raises(NotEntered, match="does not end within"):
        await HERE.run(["sleep", "600"], seconds=0.1)
    with pytest.raises(NotEntered, match="killed"):
        await HERE.call(kill_self, 0)
    with pytest.raises(NotEntered, match="no_such_directory: No such file or directory"):
        await HERE.call(os.listdir, "/no_such_directory")
    assert await HERE.run(["no_such_program"]) == Completed(127, b"", b"no_such_program: command not found\n")
    assert await HERE.run(["sh", "-c", "cat; echo b >&2; exit 7"], stdin=b"a") == Completed(7, b"a", b"b\n")
    assert (await HERE.run(["sh", "-c", "kill -TERM $$"])).code == 128 + signal.SIGTERM


def kill_self(_: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@in_namespace
def test_a_section_that_fails_does_not_hide_the_others() -> None:
    path = os.environ["PATH"]
    empty = sh("mktemp -d").strip()
    sh(f"mount --bind {empty} /usr/sbin")
    try:
        state = collect_state([Section.NFTABLES, Section.ROUTES])
    finally:
        subprocess.run(["/bin/umount", "/usr/sbin"], check=True, env={"PATH": path})
    assert state.unseen == {Section.NFTABLES: "nft: command not found"}
    assert state.routes != ()
