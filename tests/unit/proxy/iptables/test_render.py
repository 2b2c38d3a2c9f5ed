"""The rules as iptables-save prints them: goldens (UPDATE_GOLDENS=1 writes them anew), names, any history."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.objects.meta import ObjectKey
from bridgehead.proxy.errors import NotUnderstood
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
from bridgehead.proxy.iptables.chains import CANARY, SERVICES, Chain, fixed_chains, hash_of, is_ours, jumps
from bridgehead.proxy.iptables.readback import Table, as_printed, parse_listing
from bridgehead.proxy.iptables.render import Renderer
from bridgehead.proxy.iptables.transaction import Part
from bridgehead.proxy.mode import Settings
from tests.unit.examples import examples
from tests.unit.goldens import check_golden, check_hash_seeds
from tests.unit.proxy.iptables.fake_iptables import FakeIptables

GOLDENS = Path(__file__).parents[2] / "goldens" / "iptables"
SETTINGS = Settings((4,), ("10.244.0.0/16",), ("10.96.0.0/12",))

HERE = Backend("10.244.1.1", 8080, "node1", "", True)
THERE = Backend("10.244.2.1", 8080, "node2")
MORE = Backend("10.244.3.1", 8080, "node3")


def frontend(address: str, port: int, *backends: Backend, **more: object) -> Frontend:
    owner = more.pop("owner", "default/web:http")
    return Frontend(key=FrontendKey(address, "tcp", port), owner=owner, backends=backends, **more)  # type: ignore[arg-type]


WEB = frontend("10.96.0.10", 80, HERE, THERE, source_nat=SourceNat.OUTSIDE)
LOCAL = {"is_local": True, "cluster_backends": (HERE, THERE), "when_empty": Verdict.DROP}
NODE_PORT = frontend("0.0.0.0", 30080, HERE, published_as=Publication.NODE_PORT, **LOCAL)
NO_LOCAL = frontend(
    "0.0.0.0", 30081, owner="default/far:", published_as=Publication.NODE_PORT, **LOCAL | {"cluster_backends": (THERE,)}
)
EMPTY = frontend("10.96.0.11", 80, owner="default/lonely:")
RANGED = frontend(
    "203.0.113.8",
    80,
    HERE,
    THERE,
    owner="default/ranged:",
    source_nat=SourceNat.ALWAYS,
    source_ranges=("192.0.2.0/24",),
    published_as=Publication.LOAD_BALANCER,
)
STICKY = frontend("10.96.0.12", 80, HERE, THERE, owner="default/sticky:", affinity_seconds=10800)
UDP = Frontend(key=FrontendKey("10.96.0.53", "udp", 53), owner="kube-system/kube-dns:dns", backends=(HERE,))
ALL = (WEB, NODE_PORT, NO_LOCAL, EMPTY, RANGED, STICKY, UDP)
CLUSTER_IPS = ("10.96.0.10", "10.96.0.11", "10.96.0.53")


def nginx() -> tuple[Frontend, ...]:
    """The Service of the tutorial that made these names known: three endpoints, a node port, a load balancer."""
    backends = tuple(Backend(address, 80) for address in ("10.244.1.2", "10.244.2.4", "10.244.3.4"))
    about = {"owner": "default/nginx:", "source_nat": SourceNat.ALWAYS}
    return (
        frontend("10.98.154.163", 80, *backends, **about | {"source_nat": SourceNat.OUTSIDE}),
        frontend("12.12.12.12", 80, *backends, **about, published_as=Publication.LOAD_BALANCER),
        frontend("0.0.0.0", 30938, *backends, **about, published_as=Publication.NODE_PORT),
    )


def started(*frontends: Frontend) -> Renderer:
    renderer = Renderer(SETTINGS)
    renderer.full(frontends, CLUSTER_IPS, {})
    return renderer


def text_of(name: str) -> str:
    """The text of each golden, by its name."""
    match name:
        case "nginx":
            transaction = Renderer(Settings((4,), ("10.244.0.0/16",))).full(nginx(), (), {})
        case "full":
            transaction = Renderer(SETTINGS).full(ALL, CLUSTER_IPS, {})
        case "full-ipv6":
            six = Frontend(
                key=FrontendKey("fd00:96::10", "tcp", 80),
                owner="default/web:http",
                backends=(Backend("fd00:244:1::1", 8080, "node1", "", True),),
                source_nat=SourceNat.OUTSIDE,
                affinity_seconds=10,
            )
            transaction = Renderer(Settings((6,), ("fd00:244::/32",), ("fd00:96::/112",))).full(
                (six,), ("fd00:96::10",), {}
            )
        case "node-port-addresses-and-two-cluster-ranges":
            wide = Settings((4,), ("10.244.0.0/16", "10.245.0.0/16"), (), ("10.0.0.0/24",))
            transaction = Renderer(wide).full((WEB, NODE_PORT), (), {})
        case "replace-one-backend":
            new = frontend("10.96.0.10", 80, HERE, MORE, source_nat=SourceNat.OUTSIDE)
            transaction = started(WEB, UDP).change([Change(WEB, new)])
        case "last-backend-goes":
            transaction = started(UDP).change([Change(UDP, Frontend(key=UDP.key, owner=UDP.owner))])
        case "delete-service":
            transaction = started(*ALL).change([Change(RANGED, None), Change(WEB, None)], ("10.96.0.10",), ())
        case _:
            raise ValueError(name)
    return "".join(transaction.texts().values())


NAMES = (
    "nginx",
    "full",
    "full-ipv6",
    "node-port-addresses-and-two-cluster-ranges",
    "replace-one-backend",
    "last-backend-goes",
    "delete-service",
)


@pytest.mark.parametrize("name", NAMES)
def test_the_text_equals_the_golden(name: str) -> None:
    check_golden(GOLDENS / f"{name}.rules", text_of(name))


def test_every_golden_is_used() -> None:
    assert {path.stem for path in GOLDENS.glob("*")} == set(NAMES)


def test_the_text_does_not_depend_on_the_hash_seed() -> None:
    check_hash_seeds("tests.unit.proxy.iptables.test_render")


@pytest.mark.parametrize(
    ("text", "digest"),
    [
        ("default/nginx:tcp", "4N57TFCL4MD7ZTDA"),
        ("default/nginx:tcp10.244.1.2:80", "UXHBWR5XIMVGXW3H"),
        ("default/nginx:tcp10.244.2.4:80", "TOYRWPNILILHH3OR"),
        ("default/nginx:tcp10.244.3.4:80", "6QCC2MHJZP35QQAR"),
        ("ns1/svc1:p80tcp", "XPGD46QRK7WJZT7O"),
    ],
)
def test_chain_hashes_equal_those_of_kube_proxy(text: str, digest: str) -> None:
    assert hash_of(text) == digest


def test_health_check_node_ports_are_accepted() -> None:
    ported = frontend("10.96.0.10", 80, HERE, health_check_port=31234)
    text = "".join(Renderer(SETTINGS).full([ported], (), {}).texts().values())
    rule = '-p tcp -m comment --comment "default/web:http health check node port" -m tcp --dport 31234 -j ACCEPT'
    assert f"\n-A KUBE-NODEPORTS {rule}\n" in text
    renderer = started(ported)

    part = renderer.change([Change(ported, WEB)]).parts[4, "filter"]

    assert part.written == {"KUBE-NODEPORTS": ()}


def test_an_address_of_the_loopback_is_for_the_node_alone() -> None:
    mapped = frontend("127.0.0.1", 8080, HERE, owner="default/pod/web:", published_as=Publication.EXTERNAL_IP)
    renderer = started(mapped)
    [line] = [rule for rule in renderer.chains(4)[SERVICES] if rule.startswith("-d 127.0.0.1/32 ")]
    assert " -m addrtype --src-type LOCAL -m tcp --dport 8080 -j KUBE-EXT-" in line


def test_chains_of_other_programs_are_not_ours() -> None:
    for chain in (
        "KUBE-KUBELET-CANARY",
        "KUBE-IPTABLES-HINT",
        "KUBE-MARK-DROP",
        "KUBE-SVC-web",
        "DOCKER",
        CANARY + "X",
    ):
        assert not any(is_ours(table, chain) for table in ("nat", "filter", "mangle"))


def test_a_name_with_the_syntax_of_a_rule_is_not_written() -> None:
    odd = Frontend(key=WEB.key, owner='x" -j ACCEPT\n-A INPUT -j DROP #', backends=WEB.backends)

    text = "".join(Renderer(SETTINGS).full([odd], (), {}).texts().values())

    assert "-j ACCEPT\n-A INPUT" not in text
    assert "unnamed/" in text


def test_parts_give_the_same_rules_as_the_whole() -> None:
    whole, parts = FakeIptables(), FakeIptables()
    transaction = Renderer(SETTINGS).full(ALL, CLUSTER_IPS, {})

    whole.restore(transaction.texts()[4])
    for family, text in transaction.chunks(2000):
        assert family == 4
        parts.restore(text)

    assert parts.tables["nat"].chains == whole.tables["nat"].chains
    assert parts.tables["filter"].chains == whole.tables["filter"].chains


def test_right_chains_are_kept_and_stale_chains_are_removed() -> None:
    kernel = FakeIptables()
    kernel.restore(Renderer(SETTINGS).full(ALL, CLUSTER_IPS, {}).texts()[4])
    assert not Renderer(SETTINGS).full(ALL, CLUSTER_IPS, {4: kernel.tables})
    kernel.tables["nat"].chains["KUBE-SVC-AAAAAAAAAAAAAAAA"] = ["-j DROP"]
    kernel.tables["filter"].chains["INPUT"].append("-j KUBE-FIREWALL")

    kernel.restore(Renderer(SETTINGS).full(ALL[1:], CLUSTER_IPS, {4: kernel.tables}).texts()[4])

    fresh = FakeIptables()
    fresh.restore(Renderer(SETTINGS).full(ALL[1:], CLUSTER_IPS, {}).texts()[4])
    for table in ("nat", "filter", "mangle"):
        assert {n: r for n, r in kernel.tables[table].chains.items() if n.startswith("KUBE")} == {
            n: r for n, r in fresh.tables[table].chains.items() if n.startswith("KUBE")
        }
    assert kernel.tables["filter"].chains["INPUT"].count("-j KUBE-FIREWALL") == 1


@pytest.mark.parametrize("number", range(0, 60, 3))
def test_repairing_some_chains_equals_a_full_sync(number: int) -> None:
    renderer = started(*ALL)
    wanted = renderer.chains(4)
    name = sorted(wanted)[number % len(wanted)]
    (repaired,) = renderer.repair({(4, name): True}, {}).parts.items()
    assert repaired == ((4, name.table), Part(written={name.name: wanted[name]}))


def test_an_unwanted_chain_is_removed_if_it_exists() -> None:
    unknown, of_others = Chain("nat", "KUBE-SVC-AAAAAAAAAAAAAAAA"), Chain("nat", "DOCKER")
    renderer = started(*ALL)
    assert renderer.repair({(4, unknown): True, (4, of_others): True}, {}).texts() == {
        4: f"*nat\n:{unknown.name} - [0:0]\n-X {unknown.name}\nCOMMIT\n"
    }
    assert not renderer.repair({(4, unknown): False}, {})
    assert not renderer.repair({(6, SERVICES): True}, {}), "a family that is not ours"


def test_missing_jumps_are_restored_and_present_jumps_kept() -> None:
    renderer = started(*ALL)
    chain = Chain("nat", "PREROUTING")
    (jump,) = (jump for jump in jumps() if (jump.table, jump.chain) == chain)
    there = {4: {"nat": Table({"PREROUTING": ["-j DOCKER", jump.rule]})}}
    assert not renderer.repair({(4, chain): True}, there)
    gone = {4: {"nat": Table({"PREROUTING": ["-j DOCKER"]})}}
    assert renderer.repair({(4, chain): True}, gone).parts[4, "nat"].lines == [f"-I PREROUTING {jump.rule}"]


def test_removal_keeps_rules_of_other_programs() -> None:
    kernel = FakeIptables()
    kernel.restore("*nat\n:DOCKER - [0:0]\n-A PREROUTING -j DOCKER\nCOMMIT\n")
    before = kernel.save()
    kernel.restore(Renderer(SETTINGS).full(ALL, CLUSTER_IPS, {4: kernel.tables}).texts()[4])

    kernel.restore(Renderer(SETTINGS).removal({4: kernel.tables}).texts()[4])

    assert kernel.save() == before


def test_the_chains_of_an_unused_family_are_removed() -> None:
    kernel = FakeIptables()
    kernel.restore(Renderer(Settings((6,))).full((), (), {}).texts()[6])

    kernel.restore(Renderer(SETTINGS).full((), (), {6: kernel.tables}).texts()[6])

    assert "KUBE" not in kernel.save()


def test_rules_in_another_format_are_compared_by_number() -> None:
    kernel = FakeIptables()
    kernel.restore(Renderer(SETTINGS).full(ALL, CLUSTER_IPS, {}).texts()[4])
    for table in kernel.tables.values():
        for rules in table.chains.values():
            rules[:] = [f"-m odd {rule}" for rule in rules]
    renderer = Renderer(SETTINGS)
    assert renderer.full(ALL, CLUSTER_IPS, {4: kernel.tables})

    renderer.compares_text = False

    assert not renderer.full(ALL, CLUSTER_IPS, {4: kernel.tables})
    kernel.tables["nat"].chains["KUBE-SERVICES"].pop()
    assert renderer.full(ALL, CLUSTER_IPS, {4: kernel.tables})


def test_a_listing_is_read_as_it_was_written() -> None:
    kernel = FakeIptables()
    kernel.restore(Renderer(SETTINGS).full(ALL, CLUSTER_IPS, {}).texts()[4])

    assert parse_listing(f"# Generated by hand\n{kernel.save()}# Completed\n".encode()) == kernel.tables


@pytest.mark.parametrize(
    "listing", [b"nonsense\n", b"-A INPUT -j DROP\n", b"*nat\n-A X -j DROP\nCOMMIT\n", b"[1:2] x\n"]
)
def test_an_unknown_listing_is_refused(listing: bytes) -> None:
    with pytest.raises(NotUnderstood):
        parse_listing(listing)


@pytest.mark.parametrize(("sent", "printed"), [("0.3333333333", "0.33333333349"), ("0.5000000000", "0.50000000000")])
def test_probabilities_are_printed_as_the_kernel_stores_them(sent: str, printed: str) -> None:
    rule = "-m statistic --mode random --probability {} -j X"
    assert as_printed([rule.format(sent)]) == [rule.format(printed)]


def test_both_families_have_the_same_fixed_chains() -> None:
    assert fixed_chains(4, Settings()).keys() == fixed_chains(6, Settings()).keys()


# --- Any history -----------------------------------------------------------------------------------------

BACKENDS = [Backend(f"10.244.1.{i}", 8080, "node1", "", True) for i in range(1, 5)]
some_backends = st.lists(st.sampled_from(BACKENDS), max_size=4, unique=True).map(tuple)


@st.composite
def services(draw: st.DrawFn) -> tuple[ObjectKey, ServiceFrontends | None]:
    """A Service as `compile_service` makes it: its Frontends agree about backends."""
    number = draw(st.integers(0, 3))
    key = ObjectKey("default", f"s{number}")
    if draw(st.integers(0, 4)) == 0:
        return key, None
    cluster = draw(some_backends)
    local = tuple(b for b in cluster if draw(st.booleans()))
    is_local = draw(st.booleans())
    affinity = draw(st.sampled_from([None, 10]))
    owner, protocol = f"default/s{number}:http", draw(st.sampled_from(["tcp", "udp"]))
    address = f"10.96.0.{number + 1}"
    inner = Frontend(
        key=FrontendKey(address, protocol, 80),
        owner=owner,
        backends=cluster,
        source_nat=draw(st.sampled_from([SourceNat.OUTSIDE, SourceNat.ALWAYS])),
        affinity_seconds=affinity,
    )
    found = [inner]
    published = {
        FrontendKey("203.0.113.7", protocol, 80): Publication.EXTERNAL_IP,  # which several Services may claim
        FrontendKey(f"203.0.113.{number + 10}", protocol, 80): Publication.LOAD_BALANCER,
        FrontendKey("0.0.0.0", protocol, 30000 + number): Publication.NODE_PORT,
    }
    for frontend_key, kind in published.items():
        if draw(st.booleans()):
            found.append(
                Frontend(
                    key=frontend_key,
                    owner=owner,
                    backends=local if is_local else cluster,
                    cluster_backends=cluster if is_local else None,
                    is_local=is_local,
                    when_empty=Verdict.DROP if is_local and cluster else Verdict.REJECT,
                    source_nat=SourceNat.HAIRPIN if is_local else SourceNat.ALWAYS,
                    affinity_seconds=affinity,
                    source_ranges=("192.0.2.0/24",) if kind is Publication.LOAD_BALANCER and number % 2 else None,
                    published_as=kind,
                )
            )
    return key, ServiceFrontends(service=key, age=("", *key), frontends=tuple(found), cluster_ips=(address,))


@examples(150)
@given(st.lists(st.lists(services(), min_size=1, max_size=3), max_size=6))
def test_changes_give_the_same_rules_as_a_full_sync(
    history: list[list[tuple[ObjectKey, ServiceFrontends | None]]],
) -> None:
    kernel, table, renderer = FakeIptables(), FrontendTable(), Renderer(SETTINGS)
    kernel.restore(renderer.full((), (), {4: kernel.tables}).texts()[4])

    for batch in history:
        updates = [table.update(key, compiled) for key, compiled in batch]
        transaction = renderer.change(
            merge_changes(updates),
            [address for update in updates for address in update.old_cluster_ips],
            [address for update in updates for address in update.new_cluster_ips],
        )
        if transaction:
            kernel.restore(transaction.texts()[4])

    fresh = FakeIptables()
    fresh.restore(Renderer(SETTINGS).full(table, table.cluster_ips(), {}).texts()[4])
    assert kernel.tables["nat"] == fresh.tables["nat"]
    assert kernel.tables["filter"] == fresh.tables["filter"]
    assert renderer.rule_counts(4) == {
        name: sum(len(rules) for chain, rules in kernel.tables[name].chains.items() if chain.startswith("KUBE-"))
        for name in ("filter", "nat", "mangle")
    }


anything = st.builds(
    Frontend,
    key=st.builds(
        FrontendKey,
        st.sampled_from(["10.96.0.1", "0.0.0.0", "203.0.113.7"]),
        st.sampled_from(["tcp", "udp", "sctp"]),
        st.integers(1, 65535),
    ),
    owner=st.text(max_size=20) | st.just("default/web:http"),
    backends=some_backends,
    cluster_backends=st.none() | some_backends,
    when_empty=st.sampled_from(Verdict),
    source_nat=st.sampled_from(SourceNat),
    affinity_seconds=st.none() | st.integers(1, 86400),
    source_ranges=st.none() | st.just(()) | st.just(("192.0.2.0/24",)),
    published_as=st.sampled_from(Publication),
    is_local=st.booleans(),
)


@examples(100)
@given(st.lists(anything, max_size=5))
def test_rules_of_any_frontend_are_accepted_and_read_back(frontends: list[Frontend]) -> None:
    by_key = {frontend.key: frontend for frontend in frontends}.values()
    kernel = FakeIptables()

    kernel.restore(Renderer(SETTINGS).full(by_key, (), {}).texts()[4])

    assert parse_listing(kernel.save().encode()) == kernel.tables
    assert not Renderer(SETTINGS).full(by_key, (), {4: kernel.tables})


def test_a_source_of_any_address_is_not_printed() -> None:
    for anybody in ("0.0.0.0/0", "::/0"):
        assert as_printed([f"-s {anybody} -m comment --comment x -j X"]) == ["-m comment --comment x -j X"]
