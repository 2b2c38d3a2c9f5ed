"""A change that goes to iptables in parts breaks no connection between them: decisions/0020."""

from __future__ import annotations

import copy
import random
from typing import Any

import msgspec
import pytest
from hypothesis import Phase, given
from hypothesis import strategies as st

from bridgehead.objects.core import Service
from bridgehead.objects.endpoint_slices import EndpointSlice
from bridgehead.proxy.frontend_table import FrontendTable, Update, merge_updates
from bridgehead.proxy.frontends import NodeFacts
from bridgehead.proxy.iptables.render import Renderer
from bridgehead.proxy.iptables.transaction import Transaction
from bridgehead.proxy.mode import Settings
from bridgehead.proxy.service_frontends import compile_service
from tests.unit.examples import examples
from tests.unit.proxy.iptables.fake_iptables import FakeIptables
from tests.unit.proxy.iptables.packets import outcomes
from tests.unit.proxy.packets import DROPPED, REJECTED, UNTOUCHED, Packet

SETTINGS = Settings((4,), ("10.244.0.0/16",), ("10.96.0.0/12",), own_pod_cidrs=("10.244.1.0/24",))
FACTS = NodeFacts(name="node1", addresses=("10.0.0.201",), cluster_cidrs=("10.244.0.0/16",))
NAMES = ("a", "b", "c")
SOURCES = ("10.244.1.9", "192.0.2.7", "198.51.100.1", "10.0.0.201")
LIMITS = (2000, 8000, 30_000)  # bytes: 3, 12 and 40 rules
PHASES = (Phase.explicit, Phase.generate)  # to make an example smaller takes minutes
Services = dict[str, tuple[dict[str, Any], list[dict[str, Any]]]]


@st.composite
def services(draw: st.DrawFn) -> Services:
    found: Services = {}
    for number, name in enumerate(NAMES):
        if draw(st.integers(0, 3)) == 0:
            continue
        kind = draw(st.sampled_from(("ClusterIP", "NodePort", "LoadBalancer")))
        protocol = draw(st.sampled_from(("TCP", "UDP")))
        spec = {
            "type": kind,
            "clusterIP": f"10.96.0.{number + 1}",
            "ports": [{"name": "p", "port": 80, "protocol": protocol, "nodePort": 30080 + number}],
            "externalIPs": draw(st.sampled_from(([], [f"203.0.113.{number + 1}"]))),
            "sessionAffinity": draw(st.sampled_from(("None", "ClientIP"))),
            "internalTrafficPolicy": draw(st.sampled_from(("Cluster", "Cluster", "Local"))),
            "externalTrafficPolicy": draw(st.sampled_from(("Cluster", "Local"))),
        }
        if kind == "LoadBalancer":
            spec["loadBalancerSourceRanges"] = draw(st.sampled_from(([], ["192.0.2.0/24"])))
        hosts = draw(st.lists(st.integers(1, 12), max_size=12, unique=True))
        endpoints = [{"addresses": [f"10.244.{1 + n % 2}.{n}"], "nodeName": f"node{1 + n % 2}"} for n in hosts]
        service = {
            "metadata": {"name": name, "namespace": "default"},
            "spec": spec,
            "status": {"loadBalancer": {"ingress": [{"ip": f"198.51.100.{number + 10}"}]}},
        }
        ports = [{"name": "p", "port": 8080, "protocol": protocol}]
        found[name] = service, [{"addressType": "IPv4", "ports": ports, "endpoints": endpoints}]
    return found


def put(table: FrontendTable, some: Services) -> Update:
    """Make the table hold these and no others."""
    updates = []
    for name in NAMES:
        service, slices = some.get(name, ({"metadata": {"name": name, "namespace": "default"}}, []))
        typed = msgspec.convert(service, Service)
        compiled = compile_service(typed, msgspec.convert(slices, list[EndpointSlice]), FACTS) if name in some else None
        updates.append(table.update(typed.key, compiled))
    return merge_updates(updates)


PACKETS = tuple(
    Packet(address, protocol, port, source, source == "10.0.0.201", address == "10.0.0.201")
    for number in range(len(NAMES))
    for address, port in (
        (f"10.96.0.{number + 1}", 80),
        (f"10.96.0.{number + 1}", 81),
        (f"203.0.113.{number + 1}", 80),
        (f"198.51.100.{number + 10}", 80),
        ("10.0.0.201", 30080 + number),
    )
    for protocol in ("tcp", "udp")
    for source in SOURCES
)

_PACKETS_EACH = len(PACKETS) // len(NAMES)


def look(kernel: FakeIptables) -> dict[Packet, frozenset[str]]:
    return {packet: outcomes(kernel, packet) for packet in PACKETS}


def apply(kernel: FakeIptables, text: str) -> None:
    """Apply one table after the other, as iptables-restore does."""
    for table in text.split("COMMIT\n"):
        if table:
            kernel.restore(f"{table}COMMIT\n")


def check(before: FakeIptables, transaction: Transaction, limit: int) -> FakeIptables:
    """After each part, every packet goes where it went before or will go in the end; what ends may be refused."""
    after = copy.deepcopy(before)
    apply(after, transaction.texts().get(4, ""))
    old, new = look(before), look(after)
    ever = [backends(old, number) | backends(new, number) for number in range(len(NAMES))]
    kernel = copy.deepcopy(before)
    for _, text in transaction.chunks(limit):
        kernel.restore(text)
        for index, (packet, now) in enumerate(look(kernel).items()):
            allowed = old[packet] | new[packet] | ever[index // _PACKETS_EACH]
            if old[packet] & {REJECTED, UNTOUCHED}:
                allowed |= {DROPPED}  # then a client of one that found no backend tries again
            if new[packet] <= {DROPPED, UNTOUCHED}:
                allowed |= {DROPPED, REJECTED, UNTOUCHED}
            assert now <= allowed, (packet, text)
    assert ours(kernel) == ours(after)
    return after


def ours(kernel: FakeIptables) -> dict[str, dict[str, list[str]]]:
    return {name: dict(table.chains) for name, table in kernel.tables.items()}


def backends(answers: dict[Packet, frozenset[str]], number: int) -> set[str]:
    """Backends of one Service, whichever client comes to whichever of its addresses."""
    its = PACKETS[number * _PACKETS_EACH : (number + 1) * _PACKETS_EACH]
    return {outcome for packet in its for outcome in answers[packet] - {DROPPED, REJECTED, UNTOUCHED}}


def kernel_with(table: FrontendTable) -> tuple[FakeIptables, Renderer]:
    kernel, renderer = FakeIptables(), Renderer(SETTINGS)
    apply(kernel, renderer.full(table, table.cluster_ips(), {}).texts()[4])
    return kernel, renderer


@given(some=st.lists(services(), min_size=2, max_size=3), limit=st.sampled_from(LIMITS))
@examples(7, phases=PHASES)
def test_changes_in_parts_misdirect_no_packet(some: list[Services], limit: int) -> None:
    table = FrontendTable()
    put(table, some[0])
    kernel, renderer = kernel_with(table)
    for new in some[1:]:
        update = put(table, new)
        transaction = renderer.change(update.changes, update.old_cluster_ips, update.new_cluster_ips)
        kernel = check(kernel, transaction, limit)


@given(old=services(), new=services(), limit=st.sampled_from(LIMITS))
@examples(7, phases=PHASES)
def test_a_restart_in_parts_misdirects_no_packet(old: Services, new: Services, limit: int) -> None:
    table, later = FrontendTable(), FrontendTable()
    put(table, old)
    put(later, new)
    kernel, _ = kernel_with(table)

    check(kernel, Renderer(SETTINGS).full(later, later.cluster_ips(), {4: kernel.tables}), limit)


@given(new=services(), limit=st.sampled_from(LIMITS))
@examples(5, phases=PHASES)
def test_a_first_sync_in_parts_rejects_no_service_with_backends(new: Services, limit: int) -> None:
    table = FrontendTable()
    put(table, new)

    check(FakeIptables(), Renderer(SETTINGS).full(table, table.cluster_ips(), {}), limit)


@given(old=services(), seed=st.integers(0, 1000), limit=st.sampled_from(LIMITS))
@examples(7, phases=PHASES)
def test_a_repair_in_parts_breaks_nothing_else(old: Services, seed: int, limit: int) -> None:
    table = FrontendTable()
    put(table, old)
    kernel, _ = kernel_with(table)
    dice = random.Random(seed)
    for name in ("nat", "filter"):
        for chain, rules in kernel.tables[name].chains.items():
            if chain.startswith("KUBE") and dice.random() < 0.3:
                dice.shuffle(rules)
                del rules[dice.randint(0, len(rules)) :]

    check(kernel, Renderer(SETTINGS).full(table, table.cluster_ips(), {4: kernel.tables}), limit)


@pytest.mark.parametrize("limit", [600, 3000, 1 << 20])
def test_all_rules_are_removed_in_parts(limit: int) -> None:
    table = FrontendTable()
    endpoints = [{"addresses": [f"10.244.1.{n}"], "nodeName": "node1"} for n in range(1, 9)]
    spec = {"clusterIP": "10.96.0.1", "ports": [{"name": "p", "port": 80}]}
    service = {"metadata": {"name": "a", "namespace": "default"}, "spec": spec}
    slices = [{"addressType": "IPv4", "ports": [{"name": "p", "port": 8080}], "endpoints": endpoints}]
    put(table, {"a": (service, slices)})
    kernel, renderer = kernel_with(table)

    after = check(kernel, renderer.removal({4: kernel.tables}), limit)

    assert ours(after) == ours(FakeIptables())


def test_a_repair_rejects_no_service_before_its_chains_are_repaired() -> None:
    """Another program emptied the chain that rejects and a Service's chain."""
    table = FrontendTable()
    port = {"name": "p", "port": 8080, "protocol": "UDP"}
    service = {
        "metadata": {"name": "a", "namespace": "default"},
        "spec": {
            "type": "ClusterIP",
            "clusterIP": "10.96.0.1",
            "ports": [{"name": "p", "port": 80, "protocol": "UDP"}],
        },
    }
    endpoints = [{"addresses": ["10.244.1.2"], "nodeName": "node1"}]
    put(table, {"a": (service, [{"addressType": "IPv4", "ports": [port], "endpoints": endpoints}])})
    kernel, _ = kernel_with(table)
    for name in ("nat", "filter"):
        for chain, rules in kernel.tables[name].chains.items():
            if chain == "KUBE-REFUSE" or chain.startswith("KUBE-SVC-"):
                rules.clear()

    check(kernel, Renderer(SETTINGS).full(table, table.cluster_ips(), {4: kernel.tables}), 30_000)
