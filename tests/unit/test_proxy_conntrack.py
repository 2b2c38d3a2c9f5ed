"""Which UDP flows have to go: what is looked at after a change, and what is then found stale."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.network.conntrack import Flow as KernelFlow
from bridgehead.objects.core import Service
from bridgehead.objects.discovery import EndpointSlice
from bridgehead.objects.meta import ObjectKey
from bridgehead.proxy.changes import FrontendTable
from bridgehead.proxy.conntrack import Query, StaleFlows
from bridgehead.proxy.flows import FlowKeeper
from bridgehead.proxy.frontends import NodeFacts, compile_service

DNS, NODE, OUTSIDE = "10.96.0.10", "10.0.0.201", "192.0.2.9"
FACTS = NodeFacts(name="node1", cluster_cidrs=("10.244.0.0/16",))


class Flow(NamedTuple):
    destination: tuple[str, int]
    answerer: tuple[str, int]
    is_translated: bool = True


def to_pod(number: int, address: str = DNS, port: int = 53) -> Flow:
    return Flow((address, port), (f"10.244.1.{number}", 5353))


class Proxy:
    """A table and what is remembered of flows, after the first look."""

    def __init__(self) -> None:
        self.table = FrontendTable()
        self.flows = StaleFlows()
        self.flows.settled()

    def put(self, *pods: int, draining: Iterable[int] = (), name: str = "dns", **spec: Any) -> None:
        port = {"port": 53, "protocol": spec.pop("protocol", "UDP"), "nodePort": spec.pop("nodePort", 0)}
        address = spec.pop("address", DNS)
        service = msgspec.convert(
            {
                "metadata": {"name": name, "namespace": "default"},
                "spec": {"clusterIP": address, "clusterIPs": [address], "ports": [port], **spec},
            },
            Service,
        )
        endpoints = [{"addresses": [f"10.244.1.{pod}"], "conditions": {"ready": True}} for pod in pods]
        endpoints += [
            {
                "addresses": [f"10.244.1.{pod}"],
                "conditions": {"ready": False, "serving": True, "terminating": True},
            }
            for pod in draining
        ]
        slice_ = {
            "addressType": "IPv4",
            "ports": [{"name": "", "protocol": port["protocol"], "port": 5353}],
            "endpoints": endpoints,
        }
        slices = [msgspec.convert(slice_, EndpointSlice)]
        compiled = compile_service(service, slices, FACTS)
        self.flows.note(service.key, compiled, slices, self.table.update(service.key, compiled))

    def delete(self, name: str = "dns") -> None:
        key = ObjectKey("default", name)
        self.flows.note(key, None, (), self.table.update(key, None))

    def queries(self) -> list[Query]:
        return list(self.flows.queries((4, 6)))

    def stale(self, *flows: Flow) -> list[Flow]:
        return self.flows.stale(
            flows, self.table, service_cidrs=("10.96.0.0/12",), is_local=lambda address: address == NODE
        )


@pytest.fixture
def proxy() -> Proxy:
    proxy = Proxy()
    proxy.put(1, 2)
    proxy.flows.settled()
    return proxy


def test_only_a_backend_that_goes_asks_for_a_look(proxy: Proxy) -> None:
    proxy.put(1, 2, 3)
    assert proxy.queries() == [], "one more"
    proxy.put(2, 3)
    assert proxy.queries() == [Query(4, DNS, 53)]
    assert proxy.stale(to_pod(1), to_pod(2), to_pod(3)) == [to_pod(1)]
    proxy.flows.settled()
    assert proxy.queries() == []


def test_tcp_asks_for_no_look(proxy: Proxy) -> None:
    proxy.put(1, 2, name="web", address="10.96.0.11", protocol="TCP")
    proxy.put(1, name="web", address="10.96.0.11", protocol="TCP")
    proxy.delete("web")
    assert proxy.queries() == []


def test_flows_of_others_are_left_alone(proxy: Proxy) -> None:
    proxy.put(2, name="other", address="10.96.0.11")
    proxy.put(2)
    others = [to_pod(1, OUTSIDE), to_pod(1, DNS, 54), to_pod(9, "10.96.0.12"), Flow((DNS, 54), (DNS, 54), False)]

    assert proxy.stale(*others) == []


def test_scaled_to_zero_and_back(proxy: Proxy) -> None:
    proxy.put()
    assert proxy.stale(to_pod(1), to_pod(2)) == [to_pod(1), to_pod(2)]
    proxy.flows.settled()
    untranslated = Flow((DNS, 53), (DNS, 53), False)

    proxy.put(3)

    assert proxy.queries() == [Query(4, DNS, 53)], "its first backend"
    assert proxy.stale(untranslated, to_pod(3)) == [untranslated]


def test_a_deleted_service_takes_its_flows_along_but_no_other(proxy: Proxy) -> None:
    proxy.delete()

    assert proxy.queries() == [Query(4, DNS, 53)]
    assert proxy.stale(to_pod(1), Flow((DNS, 53), (DNS, 53), False)) == [to_pod(1)]


def test_an_endpoint_that_terminates_but_serves_keeps_its_flows_until_it_ends(proxy: Proxy) -> None:
    proxy.put(2, draining=[1])
    assert proxy.queries() == []
    proxy.put(2, 3, draining=[1])
    assert proxy.stale(to_pod(1)) == []
    proxy.put(2, 3)
    assert proxy.queries() == [Query(4, DNS, 53)], "though no Frontend changed"
    assert proxy.stale(to_pod(1), to_pod(2)) == [to_pod(1)]


def test_node_ports_only_at_this_nodes_addresses() -> None:
    proxy = Proxy()
    proxy.put(1, 2, type="NodePort", nodePort=30053)
    proxy.flows.settled()
    proxy.put(2, type="NodePort", nodePort=30053)

    assert Query(4, "", 30053) in proxy.queries()
    flows = [to_pod(1, NODE, 30053), to_pod(2, NODE, 30053), to_pod(1, OUTSIDE, 30053)]
    assert proxy.stale(*flows) == flows[:1]
    proxy.delete()
    assert proxy.stale(*flows) == flows[:2]


def test_an_address_that_passes_to_another_service(proxy: Proxy) -> None:
    proxy.put(5, name="later", address="10.96.0.11", externalIPs=[OUTSIDE])
    proxy.put(6, name="earlier", address="10.96.0.12", externalIPs=[OUTSIDE])
    proxy.flows.settled()

    proxy.delete("earlier")

    assert proxy.stale(to_pod(6, OUTSIDE), to_pod(5, OUTSIDE)) == [to_pod(6, OUTSIDE)]


def test_a_new_proxy_looks_at_everything() -> None:
    proxy = Proxy()
    proxy.flows = StaleFlows()
    proxy.put(2)
    unrelated = [to_pod(1, OUTSIDE), Flow((OUTSIDE, 53), (OUTSIDE, 53), False), Flow((DNS, 99), (DNS, 99), False)]

    assert proxy.queries() == [Query(4), Query(6)]
    assert proxy.stale(to_pod(1), to_pod(2), to_pod(1, "10.96.0.99"), *unrelated) == [
        to_pod(1),
        to_pod(1, "10.96.0.99"),
    ], "a backend that went, and a cluster IP that nobody has any more"


def test_many_suspects_are_one_question(proxy: Proxy) -> None:
    for number in range(20):
        proxy.put(1, name=f"s{number}", address=f"10.96.1.{number}")
    for number in range(20):
        proxy.put(2, name=f"s{number}", address=f"10.96.1.{number}")
    assert proxy.queries() == [Query(4)]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sets(st.integers(1, 5)), st.sets(st.integers(1, 5))), max_size=12))
def test_after_any_history_stale_is_what_no_endpoint_serves(history: list[tuple[str, set[int], set[int]]]) -> None:
    """Flows are made to each endpoint while it is there; what survives the looks leads to where somebody serves."""
    proxy, flows, served = Proxy(), set[Flow](), dict[str, set[int]]()
    addresses = {"a": "10.96.0.1", "b": "10.96.0.2", "c": "10.96.0.3"}
    for name, ready, draining in history:
        proxy.put(*ready, draining=draining - ready, name=name, address=addresses[name])
        served[name] = ready | draining
        if proxy.queries():
            flows -= set(proxy.stale(*flows))
            proxy.flows.settled()
        good = {to_pod(pod, addresses[other]) for other, pods in served.items() for pod in pods}
        assert flows <= good
        flows |= {to_pod(pod, addresses[name]) for pod in ready or draining}


# --- The keeper ------------------------------------------------------------------------------------------


class ScriptedKernel:
    def __init__(self, *flows: KernelFlow, error: OSError | None = None) -> None:
        self.flows, self.error = list(flows), error
        self.listed: list[Query] = []

    def close(self) -> None:
        return None

    def list_udp(self, family: int, address: str = "", port: int = 0) -> list[KernelFlow]:
        if self.error is not None:
            raise self.error
        self.listed.append(Query(family, address, port))
        return self.flows if family == 4 else []

    def delete(self, flows: Iterable[KernelFlow]) -> int:
        gone = list(flows)
        self.flows = [flow for flow in self.flows if flow not in gone]
        return len(gone)


async def test_the_keeper_looks_once_and_removes() -> None:
    stale = KernelFlow(("10.96.0.99", 53), ("10.244.1.1", 53), True, b"1")
    kept = KernelFlow((OUTSIDE, 53), (OUTSIDE, 53), False, b"2")
    kernel = ScriptedKernel(stale, kept)
    keeper = FlowKeeper(kernel, lambda address: False)

    assert await keeper.clean(FrontendTable(), (4,), ("10.96.0.0/12",)) == 1
    assert await keeper.clean(FrontendTable(), (4,), ("10.96.0.0/12",)) == 0

    assert kernel.flows == [kept]
    assert kernel.listed == [Query(4)]


async def test_what_the_kernel_refuses_is_told_once_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    kernel = ScriptedKernel(error=PermissionError(1, "no"))
    keeper = FlowKeeper(kernel, lambda address: False)
    for _ in range(3):
        assert await keeper.clean(FrontendTable(), (4,), ()) == 0
    assert len([record for record in caplog.records if record.levelname == "WARNING"]) == 1

    kernel.error = None
    await keeper.clean(FrontendTable(), (4,), ())

    assert kernel.listed == [Query(4)]
