"""Stale flows: what is scanned after a change, when, and which flows are stale."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.network.conntrack import Flow as KernelFlow
from bridgehead.objects.core import Service
from bridgehead.objects.endpoint_slices import EndpointSlice
from bridgehead.objects.meta import ObjectKey
from bridgehead.proxy.address_texts import AddressPort
from bridgehead.proxy.conntrack.reconciler import RETRY_SECONDS, Allowance, ConntrackReconciler
from bridgehead.proxy.conntrack.scan import ANYWHERE, NodeAddresses, Query, Scan
from bridgehead.proxy.conntrack.stale import (
    DEPARTED_SECONDS,
    LAST_SCAN_SECONDS,
    SECOND_SCAN_SECONDS,
    UNANSWERED_SECONDS,
    StaleFlows,
)
from bridgehead.proxy.frontend_table import FrontendTable, Update
from bridgehead.proxy.frontends import NodeFacts
from bridgehead.proxy.mode import Settings
from bridgehead.proxy.service_frontends import compile_service

DNS, NODE, OUTSIDE = "10.96.0.10", "10.0.0.201", "192.0.2.9"
FACTS = NodeFacts(name="node1", cluster_cidrs=("10.244.0.0/16",))
NOWHERE = NodeAddresses(lambda _: False)
SETTINGS = Settings(families=(4, 6), service_cidrs=("10.96.0.0/12",))


class Flow(NamedTuple):
    destination: AddressPort
    reply_source: AddressPort
    is_established: bool = True
    zone: int = 0


def to_pod(number: int, address: str = DNS, port: int = 53, *, is_established: bool = True, zone: int = 0) -> Flow:
    return Flow((address, port), (f"10.244.1.{number}", 5353), is_established, zone)


def to_nobody(address: str = DNS, port: int = 53, *, zone: int = 0) -> Flow:
    return Flow((address, port), (address, port), False, zone)


def pod(number: int) -> AddressPort:
    return (f"10.244.1.{number}", 5353)


class Proxy:
    """A table and the state about flows, after the first scans, and a clock."""

    def __init__(self, *, settings: Settings = SETTINGS, is_new: bool = False) -> None:
        self.table = FrontendTable()
        self.flows = StaleFlows()
        self.settings = settings
        self.now = 1000.0
        if not is_new:
            self.settle()

    def put(
        self, *pods: int, draining: Iterable[int] = (), dying: Iterable[int] = (), name: str = "dns", **spec: Any
    ) -> None:
        """`draining`: terminating, still serving; `dying`: terminating and not serving."""
        port = {"port": 53, "protocol": spec.pop("protocol", "UDP"), "nodePort": spec.pop("nodePort", 0)}
        address = spec.pop("address", DNS)
        service = msgspec.convert(
            {
                "metadata": {"name": name, "namespace": "default"},
                "spec": {"clusterIP": address, "clusterIPs": [address], "ports": [port], **spec},
            },
            Service,
        )
        endpoints = [
            {
                "addresses": [f"10.244.1.{pod}"],
                "conditions": {"ready": is_ready, "serving": is_serving, "terminating": not is_ready},
            }
            for group, is_ready, is_serving in ((pods, True, True), (draining, False, True), (dying, False, False))
            for pod in group
        ]
        slice_ = {
            "addressType": "IPv4",
            "ports": [{"name": "", "protocol": port["protocol"], "port": 5353}],
            "endpoints": endpoints,
        }
        slices = [msgspec.convert(slice_, EndpointSlice)]
        compiled = compile_service(service, slices, FACTS)
        self.flows.record(service.key, compiled, slices, self.table.update(service.key, compiled))

    def delete(self, name: str = "dns") -> None:
        key = ObjectKey("default", name)
        self.flows.record(key, None, (), self.table.update(key, None))

    def scan(self, after: float = 0.0) -> Scan | None:
        """Return the scan that is due after the kernel has the changes, so many seconds later."""
        self.flows.on_programmed(self.settings, self.now)
        self.now += after
        return self.flows.take(self.table, self.now, NodeAddresses(lambda address: address in (NODE, "127.0.0.1")))

    def settle(self) -> None:
        """All that was suspected has been looked at."""
        self.scan(after=60)

    def queries(self, after: float = 0.0) -> list[Query]:
        scan = self.scan(after)
        return list(scan.queries()) if scan is not None else []

    def stale(self, *flows: Flow, protocol: str = "udp", after: float = 0.0) -> list[Flow]:
        scan = self.scan(after)
        return [flow for flow in flows if scan.is_stale(protocol, flow)] if scan is not None else []


@pytest.fixture
def proxy() -> Proxy:
    proxy = Proxy()
    proxy.put(1, 2)
    proxy.settle()
    return proxy


def led_to(*pods: int, protocol: str = "udp", is_unanswered: bool = False) -> list[Query]:
    return [Query(4, protocol, ANYWHERE, pod(number), is_unanswered) for number in pods]


# --- UDP -------------------------------------------------------------------------------------------------


def test_only_a_removed_backend_requires_a_scan(proxy: Proxy) -> None:
    proxy.put(1, 2, 3)
    assert proxy.queries() == [], "one more"
    proxy.put(2, 3)
    scan = proxy.scan()
    assert scan is not None
    assert scan.queries() == led_to(1), "the kernel sends the flows of that backend and no others"
    assert [scan.is_stale("udp", to_pod(number)) for number in (1, 2, 3)] == [True, False, False]


def test_no_scan_runs_before_the_kernel_has_the_change(proxy: Proxy) -> None:
    proxy.put(2)
    assert proxy.flows.next_due() is None
    assert proxy.flows.take(proxy.table, proxy.now, NOWHERE) is None
    assert proxy.queries() == led_to(1)


def test_a_second_scan_finds_flows_of_the_old_rules(proxy: Proxy) -> None:
    proxy.put(2)
    assert proxy.stale(to_pod(1)) == [to_pod(1)]
    assert proxy.queries(after=SECOND_SCAN_SECONDS - 0.1) == []
    found = proxy.stale(to_pod(1), to_pod(2), after=SECOND_SCAN_SECONDS)
    assert found == [to_pod(1)], "mostly it was on its way just then"
    assert proxy.stale(to_pod(1), to_pod(2), after=LAST_SCAN_SECONDS) == [to_pod(1)], "a busy machine may hold it up"
    assert proxy.flows.next_due() is None


def test_foreign_flows_are_kept(proxy: Proxy) -> None:
    proxy.put(2, name="other", address="10.96.0.11")
    proxy.put(2)
    others = [to_pod(1, OUTSIDE), to_pod(1, DNS, 54), to_pod(9, "10.96.0.12"), to_nobody(DNS, 54)]
    assert proxy.stale(*others, to_pod(1, "10.96.0.11")) == [], "the last Service never led to it, somebody else did"


def test_flows_translated_by_other_rules_are_kept(proxy: Proxy) -> None:
    """A firewall of the user's may send packets for a Frontend elsewhere before our rules see them."""
    foreign = Flow((DNS, 53), ("192.0.2.53", 53))
    proxy.put(2)
    assert proxy.stale(foreign, to_pod(1)) == [to_pod(1)]
    proxy.put()
    assert proxy.stale(foreign) == []
    proxy.delete()
    assert proxy.stale(foreign) == []


def test_flows_of_a_service_scaled_to_zero_and_back_are_removed(proxy: Proxy) -> None:
    """kubernetes #139628: removal of the last backends; #48370: untranslated flows of the meantime."""
    proxy.put()
    assert proxy.stale(to_pod(1), to_pod(2)) == [to_pod(1), to_pod(2)]
    proxy.settle()
    proxy.put(3)
    assert proxy.queries() == [Query(4, "udp", (DNS, 53), (DNS, 53))], "its first backend"
    assert proxy.stale(to_nobody(), to_pod(3), after=SECOND_SCAN_SECONDS) == [to_nobody()]


def test_in_other_zones_only_flows_to_our_backends_are_removed(proxy: Proxy) -> None:
    """Open vSwitch and others track packets in zones of their own, also those that the default zone translates."""
    proxy.put()
    assert proxy.stale(to_pod(1, zone=7)) == [to_pod(1, zone=7)]
    proxy.settle()
    proxy.put(1)
    assert proxy.stale(to_nobody(zone=7), to_nobody()) == [to_nobody()]


def test_flows_of_a_deleted_service_are_removed_and_no_others(proxy: Proxy) -> None:
    """kubernetes #141371."""
    proxy.delete()
    assert proxy.queries() == led_to(1, 2)
    assert proxy.stale(to_pod(1), to_nobody(), after=SECOND_SCAN_SECONDS) == [to_pod(1)]


def test_a_service_recreated_between_two_syncs_is_handled(proxy: Proxy) -> None:
    proxy.delete()
    proxy.put(2, 3)
    assert proxy.stale(to_pod(1), to_pod(2), to_pod(3), to_nobody()) == [to_pod(1), to_nobody()]


def test_an_endpoint_that_terminates_but_serves_keeps_its_flows_until_it_ends(proxy: Proxy) -> None:
    proxy.put(2, draining=[1])
    assert proxy.queries() == []
    proxy.put(2, 3, draining=[1])
    assert proxy.stale(to_pod(1)) == []
    proxy.put(2, 3)
    scan = proxy.scan()
    assert scan is not None
    assert scan.queries() == led_to(1), "though no Frontend changed"
    assert scan.is_stale("udp", to_pod(1))
    assert not scan.is_stale("udp", to_pod(2))


def test_an_endpoint_that_returns_before_the_scan_keeps_its_flows(proxy: Proxy) -> None:
    proxy.put(2)
    proxy.put(1, 2)
    assert proxy.stale(to_pod(1)) == []


def test_a_scan_in_another_thread_spares_a_service_that_is_being_recorded() -> None:
    proxy = Proxy(is_new=True)
    proxy.put(1, draining=[2])
    scan = proxy.scan()
    assert scan is not None

    def slices() -> Iterator[EndpointSlice]:
        assert scan is not None
        assert not scan.is_stale("udp", to_pod(2)), "a draining endpoint serves its flows"
        yield from ()

    proxy.flows.record(ObjectKey("default", "dns"), None, slices(), Update([], (), (), {}))


def test_node_port_flows_are_matched_at_the_nodes_addresses_only() -> None:
    """kubernetes #49881: a port alone identifies no Service."""
    proxy = Proxy()
    proxy.put(1, 2, type="NodePort", nodePort=30053)
    proxy.settle()
    proxy.put(2, type="NodePort", nodePort=30053)

    assert proxy.queries() == led_to(1)
    flows = [to_pod(n, address, 30053) for n, address in ((1, NODE), (2, NODE), (1, OUTSIDE), (1, "127.0.0.1"))]
    assert proxy.stale(*flows, after=SECOND_SCAN_SECONDS) == flows[:1]
    proxy.delete()
    assert proxy.stale(*flows) == flows[1:2], "who is left of its backends"


def test_node_port_flows_are_matched_at_selected_addresses_only() -> None:
    elsewhere = "10.9.9.9"
    proxy = Proxy(settings=Settings(node_port_cidrs=("10.9.0.0/16",)))
    proxy.put(1, type="NodePort", nodePort=30053)
    proxy.settle()
    proxy.put(2, type="NodePort", nodePort=30053)
    proxy.flows.on_programmed(proxy.settings, proxy.now)
    scan = proxy.flows.take(proxy.table, proxy.now, NodeAddresses(lambda _: True))
    assert scan is not None
    found = [address for address in (NODE, elsewhere) if scan.is_stale("udp", to_pod(1, address, 30053))]
    assert found == [elsewhere]


@pytest.mark.parametrize("protocol", ["UDP", "TCP"])
def test_queries_have_valid_addresses_of_their_family_only(protocol: str) -> None:
    """An address of another family or none would make the kernel refuse the whole scan."""
    addresses = {4: "10.96.0.10", 6: "fd00:96::10"}
    service = msgspec.convert(
        {
            "metadata": {"name": "dns", "namespace": "default"},
            "spec": {"clusterIPs": [*addresses.values()], "ports": [{"port": 53, "protocol": protocol}]},
        },
        Service,
    )
    facts = NodeFacts(name="node1", families=(4, 6))
    table, flows = FrontendTable(), StaleFlows()
    flows.on_programmed(SETTINGS, 0.0)
    flows.take(table, 60.0, NOWHERE)
    for endpoints in ({4: ["10.244.1.1", "10.244.1.300"], 6: ["fd00:244::1", "10.244.1.1"]}, {4: [], 6: []}):
        slices = [
            msgspec.convert(
                {
                    "addressType": f"IPv{family}",
                    "ports": [{"protocol": protocol, "port": 5353}],
                    "endpoints": [
                        {"addresses": [text], "conditions": {"ready": False, "serving": True, "terminating": True}}
                        for text in texts
                    ],
                },
                EndpointSlice,
            )
            for family, texts in endpoints.items()
        ]
        compiled = compile_service(service, slices, facts)
        flows.record(service.key, compiled, slices, table.update(service.key, compiled))
    flows.on_programmed(SETTINGS, 100.0)

    scan = flows.take(table, 200.0, NOWHERE)

    assert scan is not None
    asked = {(query.family, query.reply_source[0]) for query in scan.queries()}
    assert asked - set(addresses.items()) == {(4, "10.244.1.1"), (6, "fd00:244::1")}


def test_an_address_that_moves_to_another_service_is_handled(proxy: Proxy) -> None:
    proxy.put(5, name="later", address="10.96.0.11", externalIPs=[OUTSIDE])
    proxy.put(6, name="earlier", address="10.96.0.12", externalIPs=[OUTSIDE])
    proxy.settle()

    proxy.delete("earlier")

    assert proxy.stale(to_pod(6, OUTSIDE), to_pod(5, OUTSIDE)) == [to_pod(6, OUTSIDE)]


def test_the_first_scan_checks_everything_and_keeps_valid_flows() -> None:
    """kubernetes #122740: flows to backends that are still there survive a restart."""
    proxy = Proxy(is_new=True)
    proxy.put(2, type="NodePort", nodePort=30053)
    proxy.put(2, name="web", address="10.96.0.11", protocol="TCP")
    good = [to_pod(2), to_pod(2, NODE, 30053), to_pod(1, OUTSIDE), to_nobody(OUTSIDE), to_nobody(DNS, 99)]
    bad = [to_pod(1), to_pod(1, NODE, 30053), to_nobody(), to_nobody(NODE, 30053), to_pod(1, "10.96.0.99")]

    scan = proxy.scan()

    assert scan is not None
    assert set(scan.queries()) == {
        query
        for family in (4, 6)
        for query in (
            Query(family, "udp"),
            Query(family, "tcp", is_unanswered=True),
            Query(family, "sctp"),
        )
    }
    assert [flow for flow in good + bad if scan.is_stale("udp", flow)] == bad
    attempt = to_pod(1, "10.96.0.11", is_established=False)
    assert scan.is_stale("tcp", attempt)
    assert not scan.is_stale("tcp", attempt._replace(is_established=True))
    assert not scan.is_stale("tcp", to_pod(2, "10.96.0.11", is_established=False))
    assert not scan.is_stale("tcp", to_pod(1, "10.96.0.99", is_established=False))


def test_flows_to_a_listener_of_the_proxy_are_valid_while_it_listens() -> None:
    proxy = Proxy(is_new=True)
    proxy.put(2)
    proxy.flows.on_programmed(SETTINGS, proxy.now)
    node = NodeAddresses(lambda _: True, lambda: [("169.254.98.104", 4001)])
    scan = proxy.flows.take(proxy.table, proxy.now, node)
    assert scan is not None
    found = [port for port in (4001, 4002) if scan.is_stale("udp", Flow((DNS, 53), ("169.254.98.104", port)))]
    assert found == [4002]


def test_a_frontend_removed_during_a_full_scan_is_included() -> None:
    proxy = Proxy(is_new=True)
    proxy.put(1, externalIPs=[OUTSIDE])
    proxy.scan()
    proxy.put(1)
    assert proxy.stale(to_pod(1, OUTSIDE), to_pod(2, OUTSIDE), after=SECOND_SCAN_SECONDS) == [to_pod(1, OUTSIDE)]


def test_many_candidates_share_few_queries(proxy: Proxy) -> None:
    proxy.put(*range(1, 30))
    proxy.settle()
    proxy.put(1)
    assert proxy.queries() == [Query(4, "udp", (DNS, 53))], "many backends of one Frontend"
    for number in range(20):
        proxy.put(1, name=f"s{number}", address=f"10.96.1.{number}")
    proxy.settle()
    for number in range(20):
        proxy.put(number + 2, name=f"s{number}", address=f"10.96.1.{number}")
    assert proxy.queries() == led_to(1), "one backend of many Frontends"
    for number in range(20):
        proxy.put(40 + number, name=f"s{number}", address=f"10.96.1.{number}")
    assert proxy.queries() == [Query(4, "udp")]


def test_a_failed_scan_is_repeated(proxy: Proxy) -> None:
    proxy.put(2)
    scan = proxy.scan()
    assert scan is not None
    proxy.flows.put_back(scan, proxy.now + 1)
    assert proxy.stale(to_pod(1), to_pod(2), after=1) == [to_pod(1)]


# --- TCP and SCTP ----------------------------------------------------------------------------------------

WEB = "10.96.0.11"
KINDS: dict[str, Any] = {"name": "web", "address": WEB}
ATTEMPT, ESTABLISHED = to_pod(1, WEB, is_established=False), to_pod(1, WEB)


@pytest.fixture(params=["tcp", "sctp"])
def protocol(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def put(proxy: Proxy, protocol: str) -> Callable[..., None]:
    def put(*pods: int, **more: Any) -> None:
        proxy.put(*pods, protocol=protocol.upper(), **KINDS, **more)

    put(1, 2)
    proxy.settle()
    return put


def test_unanswered_attempts_to_a_removed_endpoint_are_stale(
    proxy: Proxy, put: Callable[..., None], protocol: str
) -> None:
    """kubernetes #101607. Established connections are kept: a pod with a changed label still answers."""
    put(2)
    assert proxy.queries(after=UNANSWERED_SECONDS) == led_to(1, protocol=protocol, is_unanswered=protocol == "tcp"), (
        "ended SCTP associations had replies"
    )
    put(1, 2)
    put(2)
    flows = [ATTEMPT, ESTABLISHED, to_pod(2, WEB, is_established=False), to_nobody(WEB)]
    assert proxy.stale(*flows, protocol=protocol, after=60) == [ATTEMPT]


@pytest.mark.parametrize("state", ["draining", "dying"])
def test_a_terminating_endpoint_keeps_its_flows_until_the_pod_is_deleted(
    proxy: Proxy, put: Callable[..., None], protocol: str, state: str
) -> None:
    put(2, **{state: [1]})
    assert proxy.stale(ATTEMPT, ESTABLISHED, protocol=protocol, after=60) == []
    put(2, 3, **{state: [1]})
    assert proxy.stale(ATTEMPT, ESTABLISHED, protocol=protocol, after=60) == []

    put(2, 3)

    assert proxy.queries(after=DEPARTED_SECONDS - 0.1) == []
    scan = proxy.scan(after=0.1)
    assert scan is not None
    assert scan.queries() == led_to(1, protocol=protocol)
    assert scan.is_stale(protocol, ATTEMPT)
    assert scan.is_stale(protocol, ESTABLISHED)
    assert not scan.is_stale(protocol, to_pod(2, WEB))


def test_an_endpoint_briefly_in_no_slice_keeps_its_flows(proxy: Proxy, put: Callable[..., None], protocol: str) -> None:
    put(2, draining=[1])
    put(2)
    proxy.scan(after=1)
    put(2, draining=[1])
    assert proxy.stale(ATTEMPT, ESTABLISHED, protocol=protocol, after=60) == []


def test_a_new_pod_with_the_address_of_a_deleted_pod_is_distinct(
    proxy: Proxy, put: Callable[..., None], protocol: str
) -> None:
    put(2, draining=[1])
    put(2)
    proxy.scan(after=1)
    put(1, 2)
    put(2)
    assert proxy.stale(ESTABLISHED, protocol=protocol, after=60) == []


def test_a_deleted_service_keeps_its_established_connections(
    proxy: Proxy, put: Callable[..., None], protocol: str
) -> None:
    """Established connections continue, as in Kubernetes: their backends may be alive."""
    put(2, draining=[1])
    proxy.delete("web")
    assert proxy.stale(ATTEMPT, ESTABLISHED, to_pod(2, WEB), protocol=protocol, after=60) == []


def test_attempts_and_connections_share_one_query(proxy: Proxy, put: Callable[..., None], protocol: str) -> None:
    put(2, draining=[1], externalIPs=[OUTSIDE])
    proxy.settle()
    put(2, externalIPs=[OUTSIDE])
    assert proxy.queries(after=DEPARTED_SECONDS) == led_to(1, protocol=protocol)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sets(st.integers(1, 5)), st.sets(st.integers(1, 5))), max_size=12))
def test_after_any_history_flows_without_a_serving_endpoint_are_stale(
    history: list[tuple[str, set[int], set[int]]],
) -> None:
    """Flows are created to each endpoint while it exists; those that survive the scans lead to serving endpoints."""
    proxy, flows, served = Proxy(), set[Flow](), dict[str, set[int]]()
    addresses = {"a": "10.96.0.1", "b": "10.96.0.2", "c": "10.96.0.3"}
    for name, ready, draining in history:
        proxy.put(*ready, draining=draining - ready, name=name, address=addresses[name])
        served[name] = ready | draining
        flows -= set(proxy.stale(*flows))
        good = {to_pod(pod, addresses[other]) for other, pods in served.items() for pod in pods}
        assert flows <= good
        flows |= {to_pod(pod, addresses[name]) for pod in ready or draining}


@given(
    st.lists(
        st.tuples(
            st.sets(st.integers(1, 4)),
            st.sets(st.integers(1, 4)),
            st.sets(st.integers(1, 4)),
            st.sampled_from((0.0, 1.0, 6.0)),
        ),
        max_size=12,
    )
)
def test_after_any_history_connections_to_live_endpoints_are_kept(
    history: list[tuple[set[int], set[int], set[int], float]],
) -> None:
    """Connections are created to each endpoint while it exists; those to pods last observed terminating are stale."""
    proxy, open_ = Proxy(), set[int]()
    present, terminating = set[int](), set[int]()
    for ready, draining, dying, seconds in history:
        before, present = present, ready | draining | dying
        ended = {pod for pod in before - present if pod in terminating}
        draining, dying = draining - ready, dying - ready - draining
        proxy.put(*ready, draining=draining, dying=dying, protocol="TCP")
        terminating = {pod for pod in terminating | draining | dying if pod not in ready}
        flows = [to_pod(pod) for pod in sorted(open_)]
        stale = {
            int(flow.reply_source[0].rpartition(".")[2]) for flow in proxy.stale(*flows, protocol="tcp", after=seconds)
        }
        assert not stale & present
        assert stale <= terminating
        if seconds >= DEPARTED_SECONDS:
            assert not ended & open_ - stale
        open_ = (open_ - stale) | ready


# --- The reconciler ------------------------------------------------------------------------------------------


class ScriptedKernel:
    def __init__(self, *flows: KernelFlow, error: OSError | None = None) -> None:
        self.flows, self.error = list(flows), error
        self.asked: list[Query] = []

    def close(self) -> None:
        return None

    def one_walk(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def remove(
        self,
        family: int,
        protocol: str,
        destination: AddressPort,
        reply_source: AddressPort,
        is_unanswered: bool,
        *,
        is_stale: Callable[[KernelFlow], bool],
    ) -> int:
        self.asked.append(Query(family, protocol, destination, reply_source, is_unanswered))
        if self.error is not None:
            raise self.error
        found = [flow for flow in self.flows if protocol == "udp" and is_stale(flow)]
        self.flows = [flow for flow in self.flows if flow not in found]
        return len(found)


STALE, KEPT = KernelFlow(("10.96.0.99", 53), pod(1), True), KernelFlow((OUTSIDE, 53), (OUTSIDE, 53), False)


async def test_the_cleaner_scans_after_the_kernel_has_the_rules() -> None:
    kernel = ScriptedKernel(STALE, KEPT)
    reconciler = ConntrackReconciler(lambda: kernel, NOWHERE)
    assert await reconciler.scan() == 0
    reconciler.on_programmed(FrontendTable(), SETTINGS)
    assert await reconciler.scan() == 1
    assert await reconciler.scan() == 0
    assert kernel.flows == [KEPT]


async def test_a_failing_kernel_is_logged_once_and_retried(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    kernel = ScriptedKernel(STALE, error=PermissionError(1, "no"))
    reconciler = ConntrackReconciler(lambda: kernel, NOWHERE, lambda: now)
    reconciler.on_programmed(FrontendTable(), SETTINGS)
    for _ in range(3):
        assert await reconciler.scan() == 0
        now += RETRY_SECONDS
    assert len([record for record in caplog.records if record.levelname == "WARNING"]) == 1

    kernel.error = None
    assert await reconciler.scan() == 1


async def test_the_cleaner_runs_by_itself() -> None:
    kernel = ScriptedKernel(STALE, KEPT)
    reconciler = ConntrackReconciler(lambda: kernel, NOWHERE)
    task = asyncio.create_task(reconciler.run())
    try:
        reconciler.on_programmed(FrontendTable(), SETTINGS)
        async with asyncio.timeout(40):
            while kernel.flows != [KEPT]:  # noqa: ASYNC110 - the script sets no event
                await asyncio.sleep(0.005)
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


def test_backends_removed_in_succession_are_scanned_for_at_once() -> None:
    """Without this, clients of the second backend would lose datagrams during the pause after the first scan."""
    allowance = Allowance(1000.0, share=0.1, saved=2.0)
    rests = [allowance.spend(0.2, 1000.0 + number * 0.4) for number in range(8)]
    assert rests == [0.2] * 8, "as long as it took"


def test_scans_take_a_bounded_share_of_the_time() -> None:
    allowance = Allowance(0.0, share=0.1, saved=2.0)
    now = spent = 0.0
    while now < 1000:
        spent += 0.5
        now += 0.5 + allowance.spend(0.5, now + 0.5)
    assert spent == pytest.approx(1000 * 0.1 + 2.0, abs=1.0)
    assert allowance.spend(0.5, now + 1_000_000) == 0.5, "what was saved has a limit"
    assert allowance.spend(3.0, now + 1_000_000) == pytest.approx(15.0)
