"""Frontends as virtual servers, sets and addresses: tables, any history, and what is left of others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.network.ipset import SetType
from bridgehead.network.ipvs import Destination, Load, Scheduling, Server
from bridgehead.objects.meta import ObjectKey
from bridgehead.proxy.config import IPVS_SCHEDULERS, IpvsOptions
from bridgehead.proxy.frontend_table import Change, FrontendTable, merge_changes
from bridgehead.proxy.frontends import (
    Backend,
    Frontend,
    FrontendKey,
    Publication,
    ServiceFrontends,
    SourceNat,
    Verdict,
)
from bridgehead.proxy.iptables.readback import Table
from bridgehead.proxy.ipvs import sets
from bridgehead.proxy.ipvs.readback import KernelState
from bridgehead.proxy.ipvs.render import Renderer, exemption, removal
from bridgehead.proxy.ipvs.transaction import Transaction, texts
from bridgehead.proxy.mode import Settings
from tests.unit.examples import examples
from tests.unit.proxy.ipvs.fake_ipvs import FakeIpvs

SETTINGS = Settings((4, 6), ("10.244.0.0/16",), ("10.96.0.0/12",))
NODE = ("127.0.0.1", "10.0.0.201", "192.0.2.1", "::1", "fe80::1", "fd00:a::201")

HERE = Backend("10.244.1.1", 8080, "node1", "", True)
THERE = Backend("10.244.2.1", 8080, "node2")
HERE_SERVER, THERE_SERVER = Destination("10.244.1.1", 8080), Destination("10.244.2.1", 8080)


def frontend(address: str, port: int, *backends: Backend, **more: object) -> Frontend:
    owner = more.pop("owner", "default/web:http")
    protocol = more.pop("protocol", "tcp")
    return Frontend(key=FrontendKey(address, protocol, port), owner=owner, backends=backends, **more)  # type: ignore[arg-type]


def tcp(address: str, port: int) -> Server:
    return Server(6 if ":" in address else 4, address, "tcp", port)


def full(*frontends: Frontend, options: IpvsOptions | None = None, settings: Settings = SETTINGS) -> Transaction:
    renderer = Renderer(settings, options or IpvsOptions())
    return renderer.full(frontends, (), KernelState(), NODE)


def behind(transaction: Transaction) -> dict[Server, set[Destination]]:
    found: dict[Server, set[Destination]] = {server: set() for server in transaction.servers}
    for server, destination in transaction.destinations:
        found[server].add(destination)
    return found


WEB = frontend("10.96.0.10", 80, HERE, THERE, source_nat=SourceNat.OUTSIDE)
NODE_PORT = frontend("0.0.0.0", 30080, HERE, THERE, published_as=Publication.NODE_PORT, source_nat=SourceNat.ALWAYS)
LOCAL = {"is_local": True, "when_empty": Verdict.DROP}


def test_a_cluster_ip_is_a_virtual_server_on_the_dummy_interface() -> None:
    made = full(WEB)

    assert made.servers == {tcp("10.96.0.10", 80): Scheduling("rr")}
    assert behind(made) == {tcp("10.96.0.10", 80): {HERE_SERVER, THERE_SERVER}}
    assert made.bound == ["10.96.0.10"]
    assert made.added == {
        "KUBE-CLUSTER-IP": {"10.96.0.10,tcp:80"},
        "KUBE-LOOP-BACK": {"10.244.1.1,tcp:8080,10.244.1.1"},
        "KUBE-IPVS-IPS": {"10.96.0.10"},
    }


def test_a_set_gets_the_usual_limit_unless_it_has_too_many_elements() -> None:
    """kube-proxy cannot use sets with another limit."""
    present = {name: (kind, set()) for name, kind in sets.wanted(4).items()}
    kernel = KernelState(sets=present, limits={"KUBE-CLUSTER-IP": 4194304, "KUBE-LOOP-BACK": 4194304, "other": 7})
    pods = [Backend(f"10.244.{n >> 8}.{n & 255}", port, "node1", "", True) for port in (80, 81) for n in range(32769)]

    for frontend_, expected in (
        (WEB, ["KUBE-LOOP-BACK", "KUBE-CLUSTER-IP"]),
        (frontend("10.96.0.10", 80, *pods), ["KUBE-CLUSTER-IP"]),
    ):
        assert Renderer(SETTINGS, IpvsOptions()).full([frontend_], (), kernel, NODE).limited == expected


def test_health_checks_are_accepted() -> None:
    made = full(frontend("10.96.0.10", 80, HERE, health_check_port=31234))

    assert made.added["KUBE-HEALTH-CHECK-NODE-PORT"] == {"31234"}
    for family, name in ((4, "KUBE-HEALTH-CHECK-NODE-PORT"), (6, "KUBE-6-HEALTH-CHECK-NODE-PORT")):
        rule = f'-m comment --comment "Kubernetes health check node port" -m set --match-set {name} dst -j ACCEPT'
        assert f"\n-A KUBE-NODE-PORT {rule}\n" in made.rules.texts()[family]


def test_node_ports_are_on_each_address_except_loopback_and_link_local_ones() -> None:
    made = full(NODE_PORT)

    assert set(made.servers) == {tcp("10.0.0.201", 30080), tcp("192.0.2.1", 30080)}
    assert made.bound == []
    assert made.added["KUBE-NODE-PORT-TCP"] == {"30080"}
    assert "KUBE-NODE-PORT-LOCAL-TCP" not in made.added


def test_node_port_addresses_select_the_addresses() -> None:
    some = Settings((4, 6), node_port_cidrs=("192.0.2.0/24",))

    assert set(full(NODE_PORT, settings=some).servers) == {tcp("192.0.2.1", 30080)}


def test_an_external_ip_of_the_node_is_not_bound() -> None:
    made = full(frontend("192.0.2.1", 80, HERE, published_as=Publication.EXTERNAL_IP))

    assert made.bound == []
    assert set(made.servers) == {tcp("192.0.2.1", 80)}


@pytest.mark.parametrize("scheduler", IPVS_SCHEDULERS)
def test_every_scheduler_is_rendered(scheduler: str) -> None:
    made = full(WEB, options=IpvsOptions(scheduler=scheduler))

    # With mh a client's port counts, too, as in kube-proxy: else all its connections go to one pod.
    assert made.servers[tcp("10.96.0.10", 80)] == Scheduling(scheduler, 0, 0x10 if scheduler == "mh" else 0)


def test_affinity_of_one_address_is_persistence() -> None:
    made = full(frontend("10.96.0.10", 80, HERE, THERE, affinity_seconds=1800))

    assert made.servers == {tcp("10.96.0.10", 80): Scheduling("rr", 1800)}


def test_affinity_of_several_addresses_starts_with_the_same_choice() -> None:
    made = full(
        frontend("10.96.0.10", 80, HERE, THERE, affinity_seconds=1800),
        frontend("203.0.113.7", 80, HERE, THERE, affinity_seconds=1800, published_as=Publication.EXTERNAL_IP),
    )

    assert set(made.servers.values()) == {Scheduling("sh", 1800)}


def test_local_policy_serves_cluster_clients_by_all_backends() -> None:
    made = full(
        frontend(
            "203.0.113.7", 80, HERE, cluster_backends=(HERE, THERE), published_as=Publication.LOAD_BALANCER, **LOCAL
        )
    )

    assert behind(made) == {
        tcp("203.0.113.7", 80): {HERE_SERVER},
        Server(4, "", "", 0, 1): {HERE_SERVER, THERE_SERVER},
    }
    assert made.added[sets.CLUSTER_CLIENTS] == {"203.0.113.7,tcp:80 skbmark 0x1/0x3fff"}
    assert made.added[sets.LOAD_BALANCER_LOCAL] == {"203.0.113.7,tcp:80"}


def test_marks_and_the_masquerade_bit_do_not_overlap() -> None:
    settings = Settings((4, 6), masquerade_mark=0x20)

    assert [server.mark for server in full(far("a"), settings=settings).servers] == [0]


def test_local_policy_needs_no_mark_where_all_backends_are_local() -> None:
    made = full(
        frontend("203.0.113.7", 80, HERE, cluster_backends=(HERE,), published_as=Publication.EXTERNAL_IP, **LOCAL)
    )

    assert set(made.servers) == {tcp("203.0.113.7", 80)}
    assert made.added["KUBE-EXTERNAL-IP-LOCAL"] == {"203.0.113.7,tcp:80"}


def test_local_policy_without_a_local_backend_drops_external_clients() -> None:
    made = full(frontend("0.0.0.0", 30080, cluster_backends=(THERE,), published_as=Publication.NODE_PORT, **LOCAL))

    assert made.added[sets.DROPPED] == {"10.0.0.201,tcp:30080", "192.0.2.1,tcp:30080"}
    assert set(made.servers) == {Server(4, "", "", 0, 1)}


def test_without_backends_there_is_no_virtual_server() -> None:
    made = full(frontend("10.96.0.11", 80))

    assert made.servers == {}
    assert made.added == {"KUBE-IPVS-IPS": {"10.96.0.11"}}, "which the rules refuse"


def test_source_ranges_are_rendered_as_sets() -> None:
    ranges = ("10.0.0.0/24", "192.0.2.7/32")
    made = full(
        frontend("203.0.113.8", 80, HERE, published_as=Publication.LOAD_BALANCER, source_ranges=ranges),
        frontend("203.0.113.9", 80, HERE, published_as=Publication.LOAD_BALANCER, source_ranges=("0.0.0.0/0",)),
        frontend("203.0.113.10", 80, HERE, published_as=Publication.LOAD_BALANCER, source_ranges=()),
    )

    assert made.added[sets.GUARDED] == {"203.0.113.8,tcp:80", "203.0.113.10,tcp:80"}
    assert made.added[sets.SOURCE_CIDR] == {"203.0.113.8,tcp:80,10.0.0.0/24", "203.0.113.8,tcp:80,192.0.2.7"}
    assert made.added[sets.SOURCE_IP] == {"203.0.113.8,tcp:80,203.0.113.8"}, "the node's address is in the first"


def test_sctp_node_ports_are_a_set_of_addresses() -> None:
    made = full(frontend("0.0.0.0", 30080, HERE, protocol="sctp", published_as=Publication.NODE_PORT, **LOCAL))

    for name in ("KUBE-NODE-PORT-SCTP-HASH", "KUBE-NODE-PORT-LOCAL-SCTP-HASH"):
        assert made.added[name] == {"10.0.0.201,sctp:30080", "192.0.2.1,sctp:30080"}


def test_names_of_sets_fit_into_31_characters() -> None:
    names = list(sets.all_names())

    assert max(map(len, names)) == 31
    assert len(set(names)) == len(names)


# --- Changes ------------------------------------------------------------------------------------------------


def started(*frontends: Frontend) -> tuple[Renderer, FakeIpvs]:
    renderer, kernel = Renderer(SETTINGS, IpvsOptions()), FakeIpvs()
    kernel.do(renderer.full(frontends, (), kernel.state(), NODE))
    return renderer, kernel


def test_a_tcp_backend_drains_and_a_udp_backend_is_removed_at_once() -> None:
    renderer, _ = started(WEB)
    gone = renderer.change([Change(WEB, frontend("10.96.0.10", 80, HERE, source_nat=SourceNat.OUTSIDE))])
    assert [(retired.destination, retired.gracefully) for retired in gone.retired] == [(THERE_SERVER, True)]
    assert gone.size() == 1, "nothing else"

    udp = frontend("10.96.0.10", 53, HERE, THERE, protocol="udp")
    renderer, _ = started(udp)
    gone = renderer.change([Change(udp, frontend("10.96.0.10", 53, HERE, protocol="udp"))])
    assert [(retired.destination, retired.gracefully) for retired in gone.retired] == [(THERE_SERVER, False)]


def test_the_last_backend_drains_with_its_virtual_server() -> None:
    renderer, kernel = started(WEB)
    empty = frontend("10.96.0.10", 80, source_nat=SourceNat.OUTSIDE)
    step = renderer.change([Change(WEB, empty)])
    kernel.do(step)

    assert step.closing == [tcp("10.96.0.10", 80)]
    assert step.removed["KUBE-CLUSTER-IP"] == {"10.96.0.10,tcp:80"}, "so that it is refused from now on"
    back = renderer.change([Change(empty, WEB)])
    assert set(back.servers) == {tcp("10.96.0.10", 80)}, "for it may be gone"


def test_a_virtual_server_that_moves_to_another_service_is_kept() -> None:
    renderer, kernel = started(WEB)
    other = frontend("10.96.0.10", 80, THERE, owner="default/other:http", source_nat=SourceNat.OUTSIDE)

    step = renderer.change([Change(WEB, other)])
    kernel.do(step)

    assert step.gone == []
    assert [retired.destination for retired in step.retired] == [HERE_SERVER]
    assert step.bound == step.unbound == []


def test_shared_objects_stay_until_both_services_are_deleted() -> None:
    other = frontend("10.96.0.11", 80, HERE, owner="default/other:http")
    renderer, _ = started(WEB, other)

    assert "KUBE-LOOP-BACK" not in renderer.change([Change(other, None)]).removed
    assert renderer.change([Change(WEB, None)]).removed["KUBE-LOOP-BACK"] == {"10.244.1.1,tcp:8080,10.244.1.1"}


def test_a_new_node_address_gets_node_ports_and_is_unbound() -> None:
    outside = frontend("203.0.113.7", 80, HERE, published_as=Publication.EXTERNAL_IP)
    renderer, kernel = started(NODE_PORT, outside)

    came = renderer.move((*NODE, "203.0.113.7"))
    kernel.do(came)

    assert set(came.servers) == {tcp("203.0.113.7", 30080)}
    assert came.unbound == ["203.0.113.7"]
    went = renderer.move(NODE)
    kernel.do(went)
    assert went.gone == [tcp("203.0.113.7", 30080)]
    assert went.bound == ["203.0.113.7"]
    assert not renderer.move(NODE)


def far(name: str) -> Frontend:
    """A Frontend that needs a mark."""
    address = f"203.0.113.{10 + ord(name) - ord('a')}"
    about = LOCAL | {"owner": f"default/{name}:", "published_as": Publication.EXTERNAL_IP}
    return frontend(address, 80, HERE, cluster_backends=(HERE, THERE), **about)


def test_marks_are_kept_by_a_restart() -> None:
    renderer, kernel = started(far("a"), far("b"))
    kernel.do(renderer.change([Change(far("a"), None)]))

    anew = Renderer(SETTINGS, IpvsOptions())

    assert not anew.full([far("b")], (), kernel.state(), NODE), "though it would be the first now"
    assert Server(4, "", "", 0, 1) in anew.change([Change(None, far("a"))]).servers


def test_own_virtual_servers_are_recognized_after_the_sets_were_emptied() -> None:
    renderer, kernel = started(far("a"), far("b"), NODE_PORT)
    for _, elements in kernel.sets.values():
        elements.clear()
    kernel.bound.clear()

    kernel.do(renderer.full([far("b")], (), kernel.state(), NODE))

    assert set(kernel.servers) == set(renderer.servers()) == {tcp("203.0.113.11", 80), Server(4, "", "", 0, 2)}


def test_foreign_marks_are_avoided() -> None:
    renderer, kernel = Renderer(SETTINGS, IpvsOptions()), FakeIpvs()
    theirs = Server(4, "", "", 0, 1)
    kernel.servers[theirs] = (Scheduling("wrr"), {Destination("192.0.2.50", 80): Load(100, 0)})

    made = renderer.full([far("a")], (), kernel.state(), NODE)

    assert Server(4, "", "", 0, 2) in made.servers
    assert theirs not in made.gone


def test_only_own_objects_are_removed() -> None:
    renderer, kernel = started(WEB, NODE_PORT)
    theirs = tcp("198.51.100.1", 80)
    kernel.servers[theirs] = (Scheduling("wrr"), {Destination("192.0.2.50", 80): Load(100, 0)})

    anew = Renderer(SETTINGS, IpvsOptions()).full((), (), kernel.state(), NODE)
    assert set(anew.gone) == kernel.servers.keys() - {theirs}
    assert set(removal(kernel.state()).gone) == kernel.servers.keys() - {theirs}
    spared = Renderer(SETTINGS, IpvsOptions(exclude_cidrs=("10.96.0.0/16",)))
    assert tcp("10.96.0.10", 80) not in spared.full((), (), kernel.state(), NODE).gone
    assert renderer.servers().keys() < kernel.servers.keys()


def test_capturing_rules_are_removed_except_for_a_cluster_ip() -> None:
    """A proxy must reach the API server in spite of an earlier proxy's rules."""
    kernel = FakeIpvs()
    web = frontend("10.96.0.10", 80, HERE)
    thief = frontend("192.0.2.9", 6443, THERE, owner="default/thief:", published_as=Publication.EXTERNAL_IP)
    kernel.do(Renderer(SETTINGS, IpvsOptions()).full((web, thief), ("10.96.0.10",), kernel.state(), NODE))
    of_others = tcp("192.0.2.50", 6443)
    kernel.servers[of_others] = (Scheduling("rr"), {})

    assert not exemption(kernel.state(), "10.96.0.10", 80)
    assert exemption(kernel.state(), of_others.address, 6443).gone == []
    kernel.do(exemption(kernel.state(), "192.0.2.9", 6443))

    assert set(kernel.servers) == {tcp("10.96.0.10", 80), of_others}
    assert kernel.bound == {"10.96.0.10"}
    rule = "-d 192.0.2.9/32 -p tcp -m tcp --dport 6443 -j RETURN"
    assert kernel.iptables[4].tables["nat"].chains["KUBE-SERVICES"][0] == rule
    assert not exemption(kernel.state(), "192.0.2.9", 6443), "it is done"
    kernel.do(Renderer(SETTINGS, IpvsOptions()).full((web,), ("10.96.0.10",), kernel.state(), NODE))
    assert rule not in kernel.iptables[4].tables["nat"].chains["KUBE-SERVICES"]


def test_a_set_of_another_type_is_recreated() -> None:
    _, kernel = started(WEB)
    kernel.sets["KUBE-CLUSTER-IP"] = (SetType("hash:ip"), {})

    repair = Renderer(SETTINGS, IpvsOptions()).full([WEB], (), kernel.state(), NODE)

    assert repair.replaced == ["KUBE-CLUSTER-IP"]
    assert repair.added["KUBE-CLUSTER-IP"] == {"10.96.0.10,tcp:80"}


@pytest.mark.parametrize(("table", "takes_over"), [("nat", True), ("filter", False)])
def test_after_iptables_mode_the_rules_are_written_last(table: str, takes_over: bool) -> None:
    """The iptables mode's KUBE-SERVICES, which our rules replace, leads to pods until there are virtual servers."""
    kernel = KernelState(tables={4: {table: Table({"KUBE-NODEPORTS": []})}})

    found = Renderer(SETTINGS, IpvsOptions()).full([WEB], (), kernel, NODE)

    assert found.takes_over is takes_over


def test_a_dry_run_prints_commands() -> None:
    sticky = frontend("fd00:96::10", 80, Backend("fd00:244::1", 8080), affinity_seconds=1800)
    text = "".join(texts(full(WEB, sticky)))

    for line in (
        "create KUBE-CLUSTER-IP hash:ip,port family inet",
        "create KUBE-6-CLUSTER-IP hash:ip,port family inet6",
        "create KUBE-NODE-PORT-TCP bitmap:port range 0-65535",
        "create KUBE-IPVS-INSIDE hash:ip,port family inet skbinfo",
        "add KUBE-CLUSTER-IP 10.96.0.10,tcp:80",
        ":KUBE-SERVICES - [0:0]",
        "-A -t 10.96.0.10:80 -s rr",
        "-a -t 10.96.0.10:80 -r 10.244.1.1:8080 -m -w 1",
        "-A -t [fd00:96::10]:80 -s rr -p 1800",
        "address add 10.96.0.10 dev kube-ipvs0",
    ):
        assert f"\n{line}\n" in text


# --- Any history --------------------------------------------------------------------------------------------

numbers = st.sets(st.integers(1, 5), max_size=4)


@st.composite
def frontends(draw: st.DrawFn) -> Frontend:
    key = FrontendKey(
        draw(st.sampled_from(["10.96.0.1", "10.96.0.2", "203.0.113.7", "192.0.2.1", "0.0.0.0", "fd00:96::1", "::"])),
        draw(st.sampled_from(["tcp", "udp", "sctp"])),
        draw(st.sampled_from([80, 443])),
    )
    prefix = "fd00:244::" if key.family == 6 else "10.244.1."

    def backends() -> tuple[Backend, ...]:
        nodes = st.sampled_from(["", "node1"])
        return tuple(Backend(f"{prefix}{n}", 8080, draw(nodes), "", draw(st.booleans())) for n in sorted(draw(numbers)))

    everywhere = "::/0" if key.family == 6 else "0.0.0.0/0"
    return Frontend(
        key=key,
        owner=draw(st.sampled_from(["default/a:http", "default/b:"])),
        backends=backends(),
        cluster_backends=backends() if draw(st.integers(0, 2)) == 0 else None,
        when_empty=draw(st.sampled_from(Verdict)),
        source_nat=draw(st.sampled_from(SourceNat)),
        affinity_seconds=draw(st.sampled_from([None, None, 10])),
        source_ranges=draw(st.sampled_from([None, None, (), (everywhere,)])),
        published_as=Publication.NODE_PORT if key.is_node_port else draw(st.sampled_from(list(Publication)[:3])),
        is_local=draw(st.booleans()),
    )


@st.composite
def steps(draw: st.DrawFn) -> tuple[list[tuple[ObjectKey, ServiceFrontends | None]], tuple[str, ...]]:
    """Some Services that change, and the addresses that the node has then."""
    changes: list[tuple[ObjectKey, ServiceFrontends | None]] = []
    for _ in range(draw(st.integers(0, 3))):
        key = ObjectKey("default", draw(st.sampled_from("abc")))
        found = {one.key: one for one in draw(st.lists(frontends(), max_size=4))}
        ips = tuple(sorted({key.address for key in found if key.address.startswith(("10.96", "fd00:96"))}))
        compiled = ServiceFrontends(service=key, frontends=tuple(found.values()), cluster_ips=ips)
        changes.append((key, None if draw(st.integers(0, 3)) == 0 else compiled))
    return changes, draw(st.sampled_from([NODE, NODE[:2], (*NODE, "203.0.113.7")]))


@examples(120)
@given(st.lists(steps(), max_size=6))
def test_incremental_changes_equal_a_fresh_start(
    history: list[tuple[list[tuple[ObjectKey, ServiceFrontends | None]], tuple[str, ...]]],
) -> None:
    table, renderer, kernel = FrontendTable(), Renderer(SETTINGS, IpvsOptions()), FakeIpvs()
    kernel.do(renderer.full((), (), kernel.state(), NODE))
    addresses: tuple[str, ...] = NODE
    for batch, addresses in history:
        kernel.do(renderer.move(addresses))
        updates = [table.update(key, compiled) for key, compiled in batch]
        kernel.do(
            renderer.change(
                merge_changes(updates),
                [address for update in updates for address in update.old_cluster_ips],
                [address for update in updates for address in update.new_cluster_ips],
            )
        )
        kernel.drain()
        found = {name: len(elements) for name, (_, elements) in kernel.sets.items()}
        assert found == {name: renderer.sizes()[name] for name in found}
        assert kernel.bound == renderer.bound()
        assert {server: how for server, (how, _) in kernel.servers.items()} == renderer.servers()

    anew = Renderer(SETTINGS, IpvsOptions())
    assert anew.full(table, table.cluster_ips(), kernel.state(), addresses).size() == 0
    kernel.do(Renderer(SETTINGS, IpvsOptions()).full((), (), kernel.state(), addresses))
    kernel.drain()
    assert not kernel.servers
    assert not kernel.bound
    assert not any(elements for _, elements in kernel.sets.values())
