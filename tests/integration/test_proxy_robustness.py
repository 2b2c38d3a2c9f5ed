"""Robustness: invalid objects, Services that the kernel refuses, and being killed during a sync."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import logging
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from bridgehead.client import ApiClient
from bridgehead.network.uapi.prctl import PR_SET_CHILD_SUBREAPER
from bridgehead.objects.kinds import ENDPOINT_SLICES, NODES, SERVICES
from bridgehead.proxy.agent import ProxyAgent
from bridgehead.proxy.errors import TransactionFailed
from bridgehead.proxy.iptables import Kernel
from bridgehead.proxy.mode import Mode
from bridgehead.proxy.mode_choice import open_mode
from bridgehead.proxy.operating import problems
from tests.integration.api_world import api_world
from tests.integration.namespaced import in_namespace, sh
from tests.unit.proxy.agent_world import CONFIG, ScriptedApi, eventually, running, service, slice_of

pytestmark = [pytest.mark.integration, pytest.mark.needs("nft")]

needs_iptables = pytest.mark.needs("iptables-nft")
MODES = ("nftables", pytest.param("iptables", marks=needs_iptables))
LISTING = {"nftables": "nft list ruleset", "iptables": "iptables-nft-save; ip6tables-nft-save"}


@contextlib.asynccontextmanager
async def opened(name: str) -> AsyncIterator[Mode]:
    if name == "iptables":  # in its nft variant
        sh("iptables-nft -t mangle -N KUBE-IPTABLES-HINT")
    async with open_mode(name) as mode:
        yield mode


class Warnings(logging.Handler):
    """Logged warnings and errors."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []
        logging.getLogger("bridgehead").addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())

    def count(self, *parts: str) -> int:
        return sum(all(word in text for word in parts) for text in self.texts)


# --- Senseless objects -----------------------------------------------------------------------------------

LONG = "x" * 4000


def endpoints(name: str, *some: dict[str, Any], number: int = 1, **more: Any) -> dict[str, Any]:
    slice_ = slice_of(name) | {"endpoints": list(some)} | more
    slice_["metadata"] = slice_["metadata"] | {"name": f"{name[:40]}-{number}"}
    return slice_


def at(*addresses: str) -> dict[str, Any]:
    return {"addresses": list(addresses)}


GOOD = at("10.244.1.9")
PORTS = [{"name": "http", "port": 80}]
# Name: what its spec has beside the usual, its slices, the warning (None: none), and what is served all the same.
ODD: dict[str, tuple[dict[str, Any], list[dict[str, Any]], str | None, str]] = {
    "moving": ({}, [endpoints("moving", GOOD), endpoints("moving", GOOD, number=2)], None, "10.244.1.9"),
    "twice": ({}, [endpoints("twice", GOOD, GOOD)], "Duplicate: twice-1: endpoint 10.244.1.9 ", "10.244.1.9"),
    "no-address": ({}, [endpoints("no-address", at(), GOOD)], "EndpointWithoutAddress: ", "10.244.1.9"),
    "mixed": ({}, [endpoints("mixed", at("fd00::1"), GOOD)], "MixedFamily: ", "10.244.1.9"),
    "no-ip": ({}, [endpoints("no-ip", at("localhost"), GOOD)], "BadAddress: ", "10.244.1.9"),
    "leading-zero": ({}, [endpoints("leading-zero", at("010.1.2.3"), GOOD)], "BadAddress: ", "10.244.1.9"),
    "multicast": ({}, [endpoints("multicast", at("224.0.0.1"), GOOD)], "BadAddress: ", "10.244.1.9"),
    "unspecified": ({}, [endpoints("unspecified", at("0.0.0.0"), GOOD)], "BadAddress: ", "10.244.1.9"),
    "port-0": (
        {},
        [endpoints("port-0", GOOD, ports=[{"name": "http", "port": 0}])],
        "BadPort: ",
        "",
    ),
    "own-port-0": ({"ports": [{"name": "zero", "port": 0}, *PORTS]}, [], "BadPort: ", ""),
    "big-port": ({"ports": [{"name": "big", "port": 70000}, *PORTS]}, [], "BadPort: ", ""),
    "strange": ({"ports": [{"name": "p", "port": 9, "protocol": "IGMP"}, *PORTS]}, [], "BadProtocol: ", ""),
    "other-port": ({}, [endpoints("other-port", GOOD, ports=[{"name": "web", "port": 80}])], "PortMismatch: ", ""),
    "family-no-node-has": ({}, [endpoints("family-no-node-has", at("x"), addressType="FQDN")], None, ""),
    "external": ({"externalIPs": ["nonsense", "203.0.113.9"]}, [], "BadAddress: ", "203.0.113.9"),
    "external1": ({"externalIPs": ["203.0.113.1"]}, [], None, "203.0.113.1"),
    "external2": (
        {"externalIPs": ["203.0.113.1"]},
        [],
        "Conflict: 203.0.113.1:80/tcp belongs to default/external",
        "",
    ),
    "ranges": (
        {
            "type": "LoadBalancer",
            "loadBalancerSourceRanges": ["all", "0.0.0.0/0", "10.0.0.0/8"],
        },
        [],
        None,
        "",
    ),
    LONG: ({"ports": [{"name": LONG, "port": 80}]}, [endpoints(LONG, GOOD)], "PortMismatch: ", ""),
    'quo"te; drop\n}': ({"externalIPs": ["; flush ruleset"]}, [], "BadAddress: ", ""),
}


@pytest.mark.parametrize("name", MODES)
@in_namespace
async def test_invalid_objects_are_reported_once_and_other_services_are_served(name: str) -> None:
    api, warnings = ScriptedApi(), Warnings()
    addresses = {odd: f"10.96.1.{number}" for number, odd in enumerate(ODD, 1)}

    def put_all() -> None:
        for odd, (spec, slices, _, _) in ODD.items():
            api.put(SERVICES, service(odd, addresses[odd], **spec))
            for slice_ in slices:
                api.put(ENDPOINT_SLICES, slice_)

    put_all()
    api.put(SERVICES, service("good", "10.96.0.1"))
    api.put(ENDPOINT_SLICES, slice_of("good", "10.244.1.1", "10.244.1.2"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(problems, "SLICES_BOUND", 0.0)  # the slices here stay as they are
        await check_reports(name, api, warnings, addresses, put_all)


async def check_reports(
    name: str, api: ScriptedApi, warnings: Warnings, addresses: dict[str, str], put_all: Callable[[], None]
) -> None:
    async with opened(name) as mode, running(api, mode) as agent:
        for step in range(4):
            if step == 1:  # the same again
                put_all()
            elif step == 2:  # another family: everything is compiled and written anew
                node = {"type": "InternalIP", "address": "fd00::1"}
                api.put(NODES, {"metadata": {"name": "node1"}, "status": {"addresses": [node]}})
                await eventually(lambda: 6 in mode.settings.families)
            elif step == 3:  # somebody removes everything
                sh("nft flush ruleset")
            api.put(ENDPOINT_SLICES, slice_of("good", f"10.244.9.{step}"))
            await eventually(lambda step=step: f"10.244.9.{step}" in sh(LISTING[name]))
            listing = sh(LISTING[name])
            for odd, (_, _, expected, served) in ODD.items():
                shown = f"Service default/{odd}: " if odd.isprintable() and len(odd) < 80 else repr(odd)[1:12]
                assert warnings.count(shown, expected or "") == (expected is not None), (step, odd[:40])
                assert addresses[odd] in listing, odd[:40]
                assert served in listing, odd[:40]
        assert agent.metrics.refused._value.get() == 0
    assert all(len(text) < 300 and text.isprintable() for text in warnings.texts)


# --- Services that the kernel refuses --------------------------------------------------------------------


POISONED = {
    "nftables": ("10.96.0.66 . tcp . 80", "10.96.0.66 . tcp . 99999"),
    "iptables": ("10.96.0.66/32", "10.96.0.666/32"),
}


class Poison:
    """Makes the kernel's tool refuse, by its own judgement, whatever adds a Service at an address."""

    def __init__(self, name: str, mode: Any) -> None:
        self.is_there = True
        kernel, (good, bad) = mode._kernel, POISONED[name]
        for method in ("apply", "check", "restore"):
            if hasattr(kernel, method):
                self._wrap(kernel, method, good, bad)

    def _wrap(self, kernel: Any, method: str, good: str, bad: str) -> None:
        real = getattr(kernel, method)

        async def poisoned(*arguments: Any) -> None:
            *others, text = arguments
            await real(*others, text.replace(good, bad) if self.is_there else text)

        setattr(kernel, method, poisoned)


@pytest.mark.parametrize("name", MODES)
@in_namespace
async def test_a_service_that_the_kernel_rejects_is_left_out(name: str) -> None:
    api, warnings = ScriptedApi(), Warnings()
    for number in range(50):
        api.put(SERVICES, service(f"s{number}", f"10.96.0.{number + 1}"))
        api.put(ENDPOINT_SLICES, slice_of(f"s{number}", f"10.244.1.{number + 1}"))
    api.put(SERVICES, service("bad", "10.96.0.66"))
    api.put(ENDPOINT_SLICES, slice_of("bad", "10.244.6.6"))
    async with opened(name) as mode:
        poison = Poison(name, mode)
        async with running(api, mode) as agent:
            listing = sh(LISTING[name])
            assert all(f"10.96.0.{number + 1}" in listing for number in range(50))
            assert "10.244.6.6" not in listing
            assert warnings.count("Service default/bad: RefusedByKernel: ") == 1, warnings.texts
            assert agent.metrics.refused._value.get() == 1
            await eventually(lambda: any(event.reason == "RefusedByKernel" for event in api.events))

            api.put(ENDPOINT_SLICES, slice_of("s7", "10.244.7.7"))  # life goes on
            await eventually(lambda: "10.244.7.7" in sh(LISTING[name]))

            poison.is_there = False
            api.put(ENDPOINT_SLICES, slice_of("bad", "10.244.6.7"))
            await eventually(lambda: "10.244.6.7" in sh(LISTING[name]))
            await eventually(lambda: agent.metrics.refused._value.get() == 0)


@needs_iptables
@in_namespace
async def test_of_several_sections_those_before_the_refused_one_are_applied() -> None:
    head, too_far, dangling = ":{} - [0:0]", "-I A 5 -j RETURN", "-A A -j NOWHERE"
    kernel = Kernel("nft")
    for refused in (too_far, dangling):
        sh("nft flush ruleset")
        await kernel.restore(4, f"*nat\n{head.format('A')}\nCOMMIT\n")
        before = kernel.state()
        sections = (head.format("B"), refused, head.format("C"))
        with pytest.raises(TransactionFailed) as raised:
            await kernel.restore(4, "".join(f"*nat\n{line}\nCOMMIT\n" for line in sections))
        assert raised.value.applied == 1
        assert kernel.state() == kernel.state_after(before, 1)
        listing = sh("iptables-nft-save")
        assert ":B " in listing
        assert ":C " not in listing
        assert f"[{refused}]" in str(raised.value) or "NOWHERE" in str(raised.value)
    kernel.close()


# --- Killed in mid-sync ----------------------------------------------------------------------------------

OWN, STABLE = "10.0.0.201", "10.96.200.1"


def cluster(version: int, size: int) -> ScriptedApi:
    """`size` Services, most of which are others in each version, and one that never changes."""
    api = ScriptedApi()
    for number in range(size):
        shift = version * (number % 3)
        address = f"10.{97 + number // 60000}.{number // 250 % 250}.{number % 250 + 1}"
        api.put(SERVICES, service(f"s{number}", address))
        api.put(ENDPOINT_SLICES, slice_of(f"s{number}", *(f"10.244.{shift}.{n + 1}" for n in range(3 + shift % 2))))
    api.put(SERVICES, service("stable", STABLE))
    api.put(ENDPOINT_SLICES, slice_of("stable", OWN))
    return api


async def work(name: str, version: int, size: int, *, forever: bool) -> None:
    async with open_mode(name) as mode, running(cluster(version, size), mode):
        if forever:
            await asyncio.Event().wait()


# Connections end by a reset: on a quick machine those in TIME_WAIT would use up the ports.
PROBE = f"""
import socket, struct, sys, threading
tries = failures = 0
server = socket.create_server(("{OWN}", 8080), backlog=4096)
def serve():
    while True:
        server.accept()[0].close()
threading.Thread(target=serve, daemon=True).start()
print("ready", flush=True)
sys.stdin.read(1)
import select
while not select.select([sys.stdin], [], [], 0.0005)[0]:
    tries += 1
    try:
        with socket.create_connection(("{STABLE}", 80), 20) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("=ii", 1, 0))
    except OSError as error:
        failures += 1
        print(error, file=sys.stderr)
print(tries, failures)
"""


@pytest.mark.parametrize(
    ("name", "size", "kills"), [("nftables", 2000, 6), pytest.param("iptables", 500, 3, marks=needs_iptables)]
)
@in_namespace
def test_a_proxy_killed_during_a_sync_recovers(name: str, size: int, kills: int) -> None:
    if name == "iptables":
        sh("iptables-nft -t mangle -N KUBE-IPTABLES-HINT")
    sh(f"ip link add veth0 type veth peer name veth1; ip address add {OWN}/24 dev veth0; ip link set veth0 up")
    sh("ip link set veth1 up; ip route add default dev veth0")
    seed = random.randrange(2**32)
    sys.stderr.write(f"seed {seed}\n")
    chance = random.Random(seed)
    asyncio.run(work(name, 0, size, forever=False))
    adopt_orphans()
    killed = []
    with subprocess.Popen(
        [sys.executable, "-c", PROBE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as probe:
        if probe.stdin is None or probe.stdout is None:
            raise RuntimeError("no pipes")
        probe.stdout.readline()
        probe.stdin.write("g")
        probe.stdin.flush()
        for version in range(1, kills + 1):
            child = os.fork()
            if not child:
                os.setpgid(0, 0)
                asyncio.run(work(name, version, size, forever=True))
            time.sleep(chance.uniform(0.1, 1.2))  # the moment is the point
            os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL, "it had ended by itself"
            killed.append(child)
        for group in killed:
            await_group(group)
        asyncio.run(work(name, kills + 1, size, forever=False))
        tries, failures = map(int, probe.communicate("x", timeout=60)[0].split())
    assert tries > 100
    assert failures == 0, f"{failures} of {tries}"
    asyncio.run(equal(name, cluster(kills + 1, size)))


def adopt_orphans() -> None:
    """Become the parent of processes whose parent ended."""
    assert ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0


def await_group(group: int) -> None:
    """The kernel's tools that a killed proxy had started: they write what it wanted when they come to it.

    A proxy that runs by then undoes that. Here the last one ends as soon as all is there.
    """
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-group, 0)


async def equal(name: str, api: ScriptedApi) -> None:
    """The kernel has what a fresh start would write, and nothing else."""
    async with open_mode(name) as mode, running(api, mode) as agent:
        assert agent.metrics.elements._value.get() == 0
        assert await mode.verify(agent._programmer.table, thoroughly=True) is None


# --- Without an API server -------------------------------------------------------------------------------


@in_namespace
async def test_rules_stay_and_are_repaired_while_the_api_server_is_unreachable() -> None:
    async with api_world() as world, ApiClient(world.config) as client, open_mode("nftables") as mode:
        ports = [{"port": 80}]
        for number in (11, 12):
            body = {"metadata": {"name": f"s{number}"}, "spec": {"clusterIP": f"10.96.0.{number}", "ports": ports}}
            await client.create(SERVICES, body, "default")
        agent = ProxyAgent(client, mode, CONFIG, "node1")
        task = asyncio.create_task(agent.run())
        await agent.wait_programmed()
        assert "10.96.0.12 . tcp . 80" in sh("nft list ruleset")

        await world.stop()
        sh("nft flush ruleset")
        await eventually(lambda: "10.96.0.12 . tcp . 80" in sh("nft list ruleset"))
        assert agent.health.is_alive, "it is no fault of the proxy"

        await world.start()
        await client.delete(SERVICES, "s11", "default")
        body = {"metadata": {"name": "s13"}, "spec": {"clusterIP": "10.96.0.13", "ports": ports}}
        await client.create(SERVICES, body, "default")
        await eventually(lambda: "10.96.0.13 . tcp . 80" in sh("nft list ruleset"))
        await eventually(lambda: "10.96.0.11 " not in sh("nft list ruleset"))
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@in_namespace
async def test_objects_deleted_while_no_proxy_ran_are_removed_and_connections_stay() -> None:
    sh("ip link add veth0 type veth peer name veth1; ip address add 10.0.0.201/24 dev veth0; ip link set veth0 up")
    sh("ip link set veth1 up; ip route add default dev veth0")
    api = ScriptedApi()
    for name, address in (("stays", "10.96.0.1"), ("goes", "10.96.0.2")):
        api.put(SERVICES, service(name, address))
        api.put(ENDPOINT_SLICES, slice_of(name, OWN))
    with socket.create_server((OWN, 8080)) as server:
        async with open_mode("nftables") as mode, running(api, mode):
            client = socket.create_connection(("10.96.0.1", 80), 20)
            accepted, _ = server.accept()
        api.delete(SERVICES, "goes")
        assert "10.96.0.2 " in sh("nft list ruleset"), "rules outlive the proxy"
        async with open_mode("nftables") as mode, running(api, mode):
            assert "10.96.0.2 " not in sh("nft list ruleset")
            with client, accepted:
                client.sendall(b"still here")
                assert accepted.recv(100) == b"still here"
