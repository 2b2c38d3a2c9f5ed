"""The changes of a changed Service: conflicts, stable order, and increments that equal a fresh compile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.objects.meta import ObjectKey
from bridgehead.proxy.frontend_table import FrontendTable, arrange_backends, merge_changes
from bridgehead.proxy.frontends import (
    Backend,
    Frontend,
    FrontendKey,
    Publication,
    Reason,
    ServiceFrontends,
    SourceNat,
    Verdict,
)
from bridgehead.proxy.mode import Settings
from bridgehead.proxy.nftables.readback import Table
from bridgehead.proxy.nftables.render import Renderer
from tests.unit.examples import examples
from tests.unit.proxy.nftables.fake_nft import FakeKernel

SETTINGS = Settings((4, 6), ("10.244.0.0/16",), ("10.96.0.0/12",))


def backend(number: int, **more: Any) -> Backend:
    fields: dict[str, Any] = {"node": "node1", "is_local": True} | more
    return Backend(f"10.244.1.{number}", 8080, **fields)


def compiled(
    name: str, *frontends: Frontend, created: str = "2026-01-01T00:00:00Z", ips: tuple[str, ...] = ()
) -> ServiceFrontends:
    return ServiceFrontends(
        service=ObjectKey("default", name), age=(created, "default", name), frontends=frontends, cluster_ips=ips
    )


def frontend(address: str = "203.0.113.7", port: int = 80, *backends: Backend, **more: Any) -> Frontend:
    return Frontend(key=FrontendKey(address, "tcp", port), owner="default/x:http", backends=backends, **more)


@pytest.mark.parametrize("order", [("old", "new"), ("new", "old")])
def test_the_older_of_two_services_gets_the_address(order: tuple[str, str]) -> None:
    claims = {
        "old": compiled("old", frontend("203.0.113.7", 80, backend(1)), created="2026-01-01T00:00:00Z"),
        "new": compiled("new", frontend("203.0.113.7", 80, backend(2)), created="2026-01-02T00:00:00Z"),
    }
    table = FrontendTable()

    updates = [table.update(ObjectKey("default", name), claims[name]) for name in order]

    assert [f.backends for f in table] == [(backend(1),)]
    conflicts = updates[-1].conflicts
    assert list(conflicts) == [ObjectKey("default", "new")]
    assert [problem.reason for problem in conflicts[ObjectKey("default", "new")]] == [Reason.CONFLICT]
    assert "default/old" in str(conflicts[ObjectKey("default", "new")][0])

    heir = table.update(ObjectKey("default", "old"), None)
    assert [(c.old.backends, c.new.backends) for c in heir.changes if c.old and c.new] == [
        ((backend(1),), (backend(2),))
    ]
    assert heir.conflicts == {}
    table.update(ObjectKey("default", "new"), None)
    assert len(table) == 0


@pytest.mark.parametrize("order", [("thief", "owner"), ("owner", "thief")])
def test_a_cluster_ip_belongs_to_its_service_rather_than_an_older_external_ip(order: tuple[str, str]) -> None:
    owner = compiled("owner", frontend("10.96.0.1", 80, backend(1)), created="2026-01-02T00:00:00Z")
    claims = {
        "owner": msgspec.structs.replace(owner, cluster_ips=("10.96.0.1",)),
        "thief": compiled("thief", frontend("10.96.0.1", 80, backend(2)), created="2026-01-01T00:00:00Z"),
    }
    table = FrontendTable()

    updates = [table.update(ObjectKey("default", name), claims[name]) for name in order]

    assert [f.backends for f in table] == [(backend(1),)]
    assert list(updates[-1].conflicts) == [ObjectKey("default", "thief")]


def test_an_unchanged_service_changes_nothing() -> None:
    table = FrontendTable()
    table.update(ObjectKey("default", "x"), compiled("x", frontend("10.96.0.1", 80, backend(1), backend(2))))

    again = table.update(ObjectKey("default", "x"), compiled("x", frontend("10.96.0.1", 80, backend(2), backend(1))))

    assert again.changes == []


numbers = st.lists(st.integers(1, 40), unique=True)


@given(numbers, numbers)
def test_backends_keep_their_numbers(old: list[int], new: list[int]) -> None:
    before, after = tuple(map(backend, old)), tuple(map(backend, new))

    placed = arrange_backends(before, after)

    assert sorted(placed) == sorted(after)
    moved = sum(1 for i, b in enumerate(placed) if i >= len(before) or before[i] != b)
    gone, came = set(old) - set(new), set(new) - set(old)
    assert moved <= max(len(gone), len(came)), "no more numbers change than backends did"


def test_a_backend_with_a_changed_zone_keeps_its_number() -> None:
    old = (backend(1), backend(2), backend(3))

    assert arrange_backends(old, (backend(3), backend(2, zone="b"), backend(1))) == (
        backend(1),
        backend(2, zone="b"),
        backend(3),
    )


# --- Incremental equals fresh ----------------------------------------------------------------------------

# An address of the node is claimed as such; "2" sorts before the node ports' "::".
ON_NODE = ("10.0.0.201", "2001:db8::201")
addresses = st.sampled_from([*ON_NODE, "10.96.0.1", "10.96.0.2", "203.0.113.7", "0.0.0.0", "fd00:96::1", "::"])


@st.composite
def frontends(draw: st.DrawFn) -> Frontend:
    key = FrontendKey(draw(addresses), draw(st.sampled_from(["tcp", "udp"])), draw(st.sampled_from([80, 443])))
    prefix = "fd00:244::" if key.family == 6 else "10.244.1."

    def backends() -> tuple[Backend, ...]:
        return tuple(
            Backend(f"{prefix}{n}", 8080, draw(st.sampled_from(["", "node1"])), "", draw(st.booleans()))
            for n in sorted(draw(st.sets(st.integers(1, 6), max_size=4)))
        )

    return Frontend(
        key=key,
        owner=draw(st.sampled_from(["default/a:http", 'odd"; flush ruleset', "default/b:"])),
        backends=backends(),
        cluster_backends=backends() if draw(st.integers(0, 3)) == 0 else None,
        when_empty=draw(st.sampled_from(Verdict)),
        source_nat=draw(st.sampled_from(SourceNat)),
        affinity_seconds=draw(st.sampled_from([None, None, 10, 10800])),
        published_as=draw(st.sampled_from([Publication.EXTERNAL_IP, Publication.LOAD_BALANCER])),
        is_on_node=key.address in ON_NODE,
        source_ranges=draw(st.sampled_from([None, None, (), ("fd00::/8",) if key.family == 6 else ("10.0.0.0/8",)])),
    )


@st.composite
def services(draw: st.DrawFn) -> ServiceFrontends:
    name = draw(st.sampled_from("abcd"))
    found = {f.key: f for f in draw(st.lists(frontends(), max_size=4))}
    ips = tuple(sorted({key.address for key in found if key.address.startswith(("10.96", "fd00:96"))}))
    return compiled(name, *found.values(), created=draw(st.sampled_from(["1", "2"])), ips=ips)


@pytest.mark.slow
@examples(100)
@given(st.lists(st.lists(st.tuples(services(), st.booleans()), max_size=3), max_size=8))
def test_incremental_changes_equal_a_fresh_start(batches: list[list[tuple[ServiceFrontends, bool]]]) -> None:
    table, renderer, kernel = FrontendTable(), Renderer(SETTINGS), FakeKernel()
    kernel.apply(renderer.full(table, table.cluster_ips(), {}).text())
    last: dict[ObjectKey, ServiceFrontends] = {}
    for batch in batches:
        updates = []
        for service, is_deletion in batch:
            last.pop(service.service, None)
            if not is_deletion:
                last[service.service] = service
            updates.append(table.update(service.service, None if is_deletion else service))
        transaction = renderer.change(
            merge_changes(updates),
            [address for update in updates for address in update.old_cluster_ips],
            [address for update in updates for address in update.new_cluster_ips],
        )
        kernel.apply(transaction.text())

    # The kernel holds what a full sync of the same Frontends would make (tables stay) ...
    anew, fresh_kernel = Renderer(SETTINGS), FakeKernel()
    fresh_kernel.apply(anew.full(table, table.cluster_ips(), dict.fromkeys(kernel.read(), Table())).text())
    assert kernel.tables == fresh_kernel.tables
    assert kernel.rules == fresh_kernel.rules
    # ... in which a comparison with it finds no difference,
    assert anew.full(table, table.cluster_ips(), kernel.read()).size() == 0
    # and the Frontends are those of a table that only ever saw the end, but for the order of backends.
    fresh = FrontendTable()
    for key, service in sorted(last.items()):
        fresh.update(key, service)
    assert {f.key: _unordered(f) for f in table} == {f.key: _unordered(f) for f in fresh}


def _unordered(frontend: Frontend) -> tuple[Any, ...]:
    backends, cluster = (
        sorted(frontend.backends),
        None if frontend.cluster_backends is None else sorted(frontend.cluster_backends),
    )
    return backends, cluster, frontend.owner, frontend.when_empty, frontend.source_nat, frontend.source_ranges


# --- Addresses of the node ------------------------------------------------------------------------------------------

OWN = "10.0.0.201"


def at_node(name: str, port: int = 80, number: int = 1, **more: Any) -> ServiceFrontends:
    return compiled(
        name, frontend(OWN, port, backend(number), is_on_node=True, published_as=Publication.EXTERNAL_IP), **more
    )


def key(name: str) -> ObjectKey:
    return ObjectKey("default", name)


@pytest.mark.parametrize("name", ["port", "pod/port"])
@pytest.mark.parametrize("order", [("port", "external"), ("external", "port")])
def test_a_node_port_comes_before_an_older_external_ip_of_the_node(name: str, order: tuple[str, str]) -> None:
    claims = {
        "port": (name, compiled(name, frontend("0.0.0.0", 80, backend(2)), created="2")),
        "external": ("external", at_node("external", created="1")),
    }
    table = FrontendTable()

    updates = [table.update(key(claims[which][0]), claims[which][1]) for which in order]

    assert [(f.key.address, f.backends) for f in table] == [("0.0.0.0", (backend(2),))]
    text = "port 80/tcp is not published at the addresses of nodes that the Service lists"
    advice = "use another port, or an address that no node has"
    assert [str(problem) for problem in updates[-1].conflicts[key("external")]] == [
        f"Conflict: {text}: default/{name} has it as a node port or host port; {advice}"
    ]
    assert list(updates[-1].conflicts) == [key("external")]

    free = table.update(key(name), None)
    assert [str(change.new.key) for change in free.changes if change.new] == [f"{OWN}:80/tcp"]
    assert {f.key.address for f in table} == {OWN}
    table.update(key("external"), None)
    assert len(table) == 0


def test_node_ports_of_other_numbers_protocols_and_families_take_nothing() -> None:
    table = FrontendTable()
    table.update(key("a"), compiled("a", frontend("0.0.0.0", 81), frontend("::", 80)))
    udp = msgspec.structs.replace(frontend("0.0.0.0", 80), key=FrontendKey("0.0.0.0", "udp", 80))
    table.update(key("b"), compiled("b", udp))
    table.update(key("external"), at_node("external"))

    assert OWN in {f.key.address for f in table}


def test_a_service_may_have_a_node_port_and_an_external_ip_of_the_same_number() -> None:
    own = compiled("a", frontend("0.0.0.0", 80), frontend(OWN, 80, is_on_node=True))
    table = FrontendTable()

    assert table.update(key("a"), own).conflicts == {}
    assert len(table) == 2


def test_several_external_ips_yield_to_a_node_port_and_come_back() -> None:
    table = FrontendTable()
    table.update(key("old"), at_node("old", number=1, created="1"))
    table.update(key("new"), at_node("new", number=2, created="2"))
    yielding = table.update(key("port"), compiled("port", frontend("0.0.0.0", 80, backend(3)), created="3"))
    assert set(yielding.conflicts) == {key("old"), key("new")}
    assert [f.key.address for f in table] == ["0.0.0.0"]

    table.update(key("old"), None)  # while the node port has it
    assert [f.key.address for f in table] == ["0.0.0.0"]
    back = table.update(key("port"), None)
    assert [(f.key.address, f.backends) for f in table] == [(OWN, (backend(2),))]
    assert back.conflicts == {}


def test_an_external_ip_goes_while_a_node_port_comes_before_it() -> None:
    table = FrontendTable()
    table.update(key("port"), compiled("port", frontend("0.0.0.0", 80, backend(3))))
    table.update(key("external"), at_node("external"))
    table.update(key("external"), None)

    gone = table.update(key("port"), None)

    assert [str(change.old.key) for change in gone.changes if change.old] == ["0.0.0.0:80/tcp"]
    assert len(table) == 0


@pytest.mark.parametrize("given", ["given", "pod/given"])
def test_what_was_given_comes_before_an_older_external_ip(given: str) -> None:
    how = Publication.EXTERNAL_IP if given.startswith("pod/") else Publication.LOAD_BALANCER
    table = FrontendTable()
    chosen = compiled("chosen", frontend("203.0.113.7", 80, published_as=Publication.EXTERNAL_IP), created="1")
    table.update(key("chosen"), chosen)

    update = table.update(
        key(given), compiled(given, frontend("203.0.113.7", 80, backend(1), published_as=how), created="2")
    )

    assert [f.backends for f in table] == [(backend(1),)]
    assert list(update.conflicts) == [key("chosen")]


def test_ports_at_an_address_of_the_node_are_not_searched_for_each_of_them() -> None:
    class Counted(tuple[Frontend, ...]):
        walks = 0

        def __iter__(self) -> Iterator[Frontend]:
            Counted.walks += 1
            return super().__iter__()

    ports = Counted(frontend(OWN, port, backend(1), is_on_node=True) for port in range(1, 101))
    FrontendTable().update(key("web"), msgspec.structs.replace(compiled("web"), frontends=ports))
    assert 0 < Counted.walks < 10
