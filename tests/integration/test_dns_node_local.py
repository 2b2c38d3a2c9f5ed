"""The cluster DNS's address served on a node: who answers whom, and what becomes of it however the process ends.

A node, two pods behind it and a stand-in for the service proxy, in namespaces of their own:

    client 10.244.1.1 ── node 10.0.0.201 ── server 10.244.1.2, which 10.96.0.10 is translated to as by a service proxy
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import os
import re
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import cast

import dnslib
import pytest

from bridgehead.client import ApiClient
from bridgehead.dns.serving.node_local import TABLE, NodeLocal
from bridgehead.network.own_addresses import source_towards
from bridgehead.network.untracked import UntrackedTable
from bridgehead.objects.kinds import SERVICES

from .api_world import api_world, until
from .certificates import server_certificate
from .dns_world import framed, read_framed
from .namespaced import in_namespace, sh
from .test_cli_dns import kubeconfig

pytestmark = [pytest.mark.integration, pytest.mark.needs("nft", "conntrack")]

DNS = {4: "10.96.0.10", 6: "fd00:96::a"}
CLIENT, SERVER = {4: "10.244.1.1", 6: "fd00:244:1::1"}, {4: "10.244.1.2", 6: "fd00:244:1::2"}
WEB = "web.default.svc.cluster.local"
ELSEWHERE = "192.0.2.1"  # what the stand-in for the Deployment answers
_CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


# --- The world ---------------------------------------------------------------------------------------------


@contextlib.contextmanager
def inside(name: str) -> Iterator[None]:
    """Sockets made in here belong to that namespace."""
    with open("/proc/thread-self/ns/net") as here, open(f"/run/netns/{name}") as there:
        if _libc.setns(there.fileno(), _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns")
        try:
            yield
        finally:
            _libc.setns(here.fileno(), _CLONE_NEWNET)


def make_node() -> None:
    """The node is this namespace. Pods are routed to, and what is sent to the DNS's addresses is translated."""
    sh("""
        echo 1 >/proc/sys/net/ipv4/ip_forward; echo 1 >/proc/sys/net/ipv6/conf/all/forwarding
        ip netns add outside; ip link add fabric type veth peer name eth0 netns outside; ip link set fabric up
        ip -n outside link set eth0 up
        ip address add 10.0.0.201/24 dev fabric; ip address add fd00:10::201/64 dev fabric nodad
        ip route add default via 10.0.0.1; ip route add default via fd00:10::1
    """)
    for pod, addresses in (("client", CLIENT), ("server", SERVER)):
        sh(f"""
            ip netns add {pod}; ip link add {pod} type veth peer name eth0 netns {pod}; ip link set {pod} up
            ip -n {pod} link set lo up; ip -n {pod} link set eth0 up
            ip address add 169.254.1.1/32 dev {pod}; ip address add fe80::1/64 dev {pod} nodad
            ip -n {pod} address add {addresses[4]}/32 dev eth0
            ip -n {pod} address add {addresses[6]}/128 dev eth0 nodad
            ip -n {pod} route add 169.254.1.1 dev eth0; ip -n {pod} route add default via 169.254.1.1
            ip -n {pod} route add default via fe80::1 dev eth0
            ip route add {addresses[4]} dev {pod}; ip route add {addresses[6]} dev {pod}
        """)
    for chain in ("prerouting", "output"):
        sh(f"""nft -f - <<X
            table inet proxy {{
                chain {chain} {{
                    type nat hook {chain} priority -100;
                    ip daddr {DNS[4]} meta l4proto {{ tcp, udp }} th dport 53 dnat ip to {SERVER[4]}
                    ip6 daddr {DNS[6]} meta l4proto {{ tcp, udp }} th dport 53 dnat ip6 to {SERVER[6]}
                }}
            }}
X""")


class _Answering(asyncio.DatagramProtocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, client: tuple[str, int]) -> None:
        self._transport.sendto(answer_elsewhere(data), client)


def answer_elsewhere(query: bytes) -> bytes:
    reply = dnslib.DNSRecord.parse(query).reply()
    reply.add_answer(*dnslib.RR.fromZone(f"{WEB}. 5 A {ELSEWHERE}"))
    return bytes(reply.pack())


async def _converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            writer.write(framed(answer_elsewhere(await read_framed(reader))))
    writer.close()


@contextlib.asynccontextmanager
async def deployment() -> AsyncIterator[None]:
    """The stand-in for the Deployment's pods: it answers every question with an address of its own."""
    with inside("server"):
        udp, tcp = (socket.socket(socket.AF_INET6, kind) for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM))
        for made in (udp, tcp):
            made.bind(("::", 53))  # of both families
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(_Answering, sock=udp)
    server = await asyncio.start_server(_converse, sock=tcp)
    try:
        yield
    finally:
        # Without waiting for its connections, as Python 3.12 and newer do: tests make conntrack forget some of them,
        # whose ends then never arrive.
        server.close()
        transport.close()


@contextlib.asynccontextmanager
async def connection() -> AsyncIterator[Callable[[], Awaitable[str]]]:
    """A TCP connection of the client's; what is asked over it is answered by whom it began with."""
    made = open_socket("client", DNS[4], socket.SOCK_STREAM)
    async with asyncio.timeout(20):
        await asyncio.get_running_loop().sock_connect(made, (DNS[4], 53))
    reader, writer = await asyncio.open_connection(sock=made)

    async def ask() -> str:
        writer.write(framed(bytes(dnslib.DNSRecord.question(WEB).pack())))
        async with asyncio.timeout(20):
            return str(dnslib.DNSRecord.parse(await read_framed(reader)).rr[0].rdata)

    try:
        yield ask
    finally:
        writer.close()


@contextlib.asynccontextmanager
async def cluster() -> AsyncIterator[tuple[str, str]]:
    """A node, a Deployment and an API with one Service: the option that leads there, and the Service's address."""
    make_node()
    async with deployment(), api_world(server_certificate()) as world, ApiClient(world.config) as client:
        for family in DNS:
            await answered_by(ELSEWHERE, family=family)  # new links drop packets until the kernel has got round to them
        web = await client.create(SERVICES, {"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}}, "default")
        yield kubeconfig(world, Path("/run")), str(web.spec.cluster_ip)


@contextlib.asynccontextmanager
async def dns(*options: str) -> AsyncIterator[asyncio.subprocess.Process]:
    pages = ("--health=", "--ready=127.0.0.1:8181", "--metrics=", "--no-upstream")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "from bridgehead.cli import main; main()", "dns",
        *(f"--node-local={address}" for address in DNS.values()), *pages, *options,
        start_new_session=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
            await process.wait()


async def ask(where: str, address: str, *, tcp: bool = False, seconds: float = 20) -> str:
    """The address that the Service's name has for who asks there; "" without an answer."""
    made = open_socket(where, address, socket.SOCK_STREAM if tcp else socket.SOCK_DGRAM)
    with made, contextlib.suppress(TimeoutError, ConnectionError):
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(seconds):
            await loop.sock_connect(made, (address, 53))
            query = bytes(dnslib.DNSRecord.question(WEB).pack())
            await loop.sock_sendall(made, framed(query) if tcp else query)
            reply = await loop.sock_recv(made, 4096)
        return str(dnslib.DNSRecord.parse(reply[2:] if tcp else reply).rr[0].rdata)
    return ""


def open_socket(where: str, address: str, kind: int) -> socket.socket:
    with inside(where) if where != "node" else contextlib.nullcontext():
        return socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, kind | socket.SOCK_NONBLOCK)


async def answered_by(expected: str, where: str = "client", family: int = 4) -> None:
    async def is_so() -> bool:
        return await ask(where, DNS[family], seconds=1) == expected

    await until(is_so)


def flows() -> list[str]:
    """Return the entries of connection tracking for port 53."""
    return [
        line
        for line in sh("conntrack -L 2>/dev/null; conntrack -L -f ipv6 2>/dev/null").splitlines()
        if "dport=53 " in line
    ]


def leftovers() -> tuple[str, list[str]]:
    """Our tables, and the routes by which this namespace takes in what is sent to the DNS's addresses."""
    routes = json.loads(sh("ip -json route show table local")) + json.loads(sh("ip -json -6 route show table local"))
    tables = [line for line in sh("nft list tables").splitlines() if not line.endswith(" proxy")]
    return "".join(tables), [route["dst"] for route in routes if route["dst"] in DNS.values()]


class Load:
    """Asks all the time, from one port and from ever new ones; `answers` has what came, by the number of the query."""

    def __init__(self) -> None:
        self.sent = 0
        self.answers: dict[int, str] = {}
        self._sockets: set[socket.socket] = set()
        self._more = asyncio.Event()

    async def __aenter__(self) -> Load:
        self._steady = self._open()
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        for made in list(self._sockets):
            self._close(made)

    def unanswered(self, upto: int) -> set[int]:
        return set(range(upto)) - set(self.answers)

    async def all_answered(self, *, but: range = range(0)) -> None:
        """Wait until all queries sent so far, except `but`, have an answer."""
        sent = self.sent

        async def are_so() -> bool:
            return self.unanswered(sent) <= set(but)

        await until(are_so)

    async def answered(self, count: int = 50) -> set[str]:
        """Wait for the answers to the next `count` queries, and return who gave them."""
        wanted = set(range(self.sent, self.sent + count))

        async def is_so() -> bool:
            return wanted <= set(self.answers)

        await until(is_so)
        return {self.answers[number] for number in wanted}

    async def _run(self) -> None:
        while True:
            made = self._steady if self.sent % 2 else self._open()
            query = dnslib.DNSRecord.question(WEB)
            query.header.id = self.sent
            self.sent += 1
            self._more.clear()
            with contextlib.suppress(ConnectionRefusedError):  # which an earlier query met
                made.send(query.pack())
            with contextlib.suppress(TimeoutError):  # whatever becomes of it, the next one follows
                async with asyncio.timeout(0.02):
                    await self._more.wait()
            await asyncio.sleep(0.002)  # however quick the machine: an answer is known by 16 bits

    def _open(self) -> socket.socket:
        made = open_socket("client", DNS[4], socket.SOCK_DGRAM)
        made.connect((DNS[4], 53))
        self._sockets.add(made)
        asyncio.get_running_loop().add_reader(made, self._read, made)
        return made

    def _read(self, made: socket.socket) -> None:
        with contextlib.suppress(ConnectionRefusedError, BlockingIOError):
            reply = dnslib.DNSRecord.parse(made.recv(4096))
            self.answers[reply.header.id] = str(reply.rr[0].rdata)
            self._more.set()
            if made is not self._steady:
                self._close(made)

    def _close(self, made: socket.socket) -> None:
        self._sockets.remove(made)
        asyncio.get_running_loop().remove_reader(made)
        made.close()


# --- Tests -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("processes", [1, 2])
@in_namespace
async def test_queries_are_answered_before_during_and_after_the_dns_runs_on_the_node(processes: int) -> None:
    async with cluster() as (api, web), Load() as load:
        options = (api, f"--processes={processes}")
        assert await load.answered() == {ELSEWHERE}
        assert flows() != []
        async with connection() as earlier, dns(*options, "--lameduck=600") as process:
            assert await earlier() == ELSEWHERE
            await answered_by(web)
            assert await load.answered() == {web}
            await load.all_answered()
            assert await earlier() == ELSEWHERE, "a connection stays where it began"
            sh("conntrack -F 2>/dev/null")
            for family in (4, 6):
                for where in ("client", "node"):
                    for tcp in (False, True):
                        assert await ask(where, DNS[family], tcp=tcp) == web
            assert flows() == []
            async with connection() as later:
                assert await later() == web
                process.send_signal(signal.SIGTERM)

                async def has_left() -> bool:
                    assert await later() == web, "who has begun to talk with it ends in peace"
                    return await ask("client", DNS[4]) == ELSEWHERE

                await until(has_left)
                assert await later() == web
                assert await load.answered() == {ELSEWHERE}
                os.killpg(process.pid, signal.SIGINT)  # it has been long enough
                await process.wait()
        assert leftovers() == ("", [])
        assert await load.answered() == {ELSEWHERE}
        await load.all_answered()
        for family in (4, 6):
            for where in ("client", "node"):
                assert await ask(where, DNS[family]) == ELSEWHERE

        async with dns(*options) as process:
            await answered_by(web)
            begun = min(load.unanswered(load.sent), default=load.sent)
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
            await until(no_table)
            in_vain = range(begun, load.sent)
            assert await load.answered() == {ELSEWHERE}, "a killed one is asked no more"
            assert await ask("node", DNS[4]) == ELSEWHERE
        async with dns(*options):
            await answered_by(web)
            assert await load.answered() == {web}
            await load.all_answered(but=in_vain)
        assert leftovers() == ("", [])


async def no_table() -> bool:
    return leftovers()[0] == ""


RULES = (
    "{ip} daddr @queries{family} udp dport 53 notrack",
    "{ip} saddr @replies{family} udp sport 53 notrack",
    "{ip} saddr @replies{family} tcp sport 53 notrack",
    "{ip} daddr @queries{family} tcp dport 53 tcp flags syn / fin,syn,rst,ack"
    " update @peers{family} {{ {ip} saddr . tcp sport }}",
    "{ip} daddr @replies{family} tcp dport 53 {ip} saddr . tcp sport @peers{family}"
    " update @peers{family} {{ {ip} saddr . tcp sport }} notrack",
)


@in_namespace
def test_the_table_is_listed_as_nft_prints_it() -> None:
    make_node()
    with NodeLocal(tuple(DNS.values())) as addresses:
        addresses.take()
        listing = sh(f"nft -s list table inet {TABLE}")
        assert "flags owner" in listing
        # The form of nft 1.1.
        listing = listing.replace("tcp flags & (fin | syn | rst | ack) == syn", "tcp flags syn / fin,syn,rst,ack")
        for chain in ("prerouting", "output"):
            (rules,) = re.findall(
                rf"chain {chain} {{\n\t\ttype filter hook {chain} priority raw; policy accept;\n(.*?)\n\t}}",
                listing,
                re.DOTALL,
            )
            assert [line.strip() for line in rules.splitlines()] == [
                line.format(ip=ip, family=family) for family, ip in ((4, "ip"), (6, "ip6")) for line in RULES
            ]
        assert held() == set(DNS.values())
        sh("nft flush ruleset")  # as a firewall does when it is reloaded
        assert held() == set(DNS.values())
        with pytest.raises(PermissionError):
            NodeLocal((DNS[4],))
        addresses.leave()
        assert held() == set()
        assert held("replies") == set(DNS.values())
    assert leftovers() == ("", [])


def held(use: str = "queries") -> set[str]:
    text = sh("nft -j list table inet " + TABLE)
    sets = [entry["set"] for entry in json.loads(text)["nftables"] if "set" in entry]
    elements = [element for found in sets if found["name"].startswith(use) for element in found.get("elem", [])]
    return {element["elem"]["val"] if isinstance(element, dict) else element for element in elements}


@in_namespace
def test_an_address_that_another_link_has_is_left_to_that_link() -> None:
    make_node()
    with NodeLocal(tuple(DNS.values())) as addresses:
        addresses.take()
        # As the service proxy's ipvs mode does, on an interface of its own.
        sh(f"ip address add {DNS[4]}/32 dev lo")
        addresses.check_links()
        assert held() == {DNS[6]}
        sh(f"ip address del {DNS[4]}/32 dev lo")
        addresses.check_links()
        assert held() == set(DNS.values())
    assert leftovers() == ("", [])


@in_namespace
def test_queries_from_the_node_keep_their_source_address() -> None:
    make_node()
    own = {4: "10.0.0.201", 6: "fd00:10::201"}
    with NodeLocal(tuple(DNS.values())) as addresses:
        addresses.take()
        assert {source_towards(address) for address in DNS.values()} == set(own.values())
        sh(
            "ip address add 10.0.1.202/24 dev fabric; ip address del 10.0.0.201/24 dev fabric; "
            "ip route replace default via 10.0.1.1"
        )
        addresses.check_links()
        assert source_towards(DNS[4]) == "10.0.1.202"
        before = leftovers()
        for address in DNS.values():
            sh(f"ip route del local {address} dev lo table local")
        addresses.renew()
        assert leftovers() == before
        assert held() == set(DNS.values())


@in_namespace
async def test_without_table_owners_the_elements_expire() -> None:
    make_node()
    with UntrackedTable(TABLE, (4, 6), lease_seconds=1, may_own=False) as table:
        table.take(DNS.values())

        async def forgotten() -> bool:
            return held() == set()

        async def renewed() -> bool:
            table.renew()
            return held() == set(DNS.values())

        await until(forgotten)
        await until(renewed)  # on a busy machine they may be forgotten again before they are seen
        table.leave(DNS.values())
        await until(forgotten)
        table.renew()
        assert held() == set()
