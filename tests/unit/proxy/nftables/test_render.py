"""The nft text itself: goldens (UPDATE_GOLDENS=1 writes them anew), order, parts, repair."""

from __future__ import annotations

import random
from pathlib import Path

import msgspec
import pytest

from bridgehead.proxy.errors import NotUnderstood
from bridgehead.proxy.frontend_table import Change, FrontendTable
from bridgehead.proxy.frontends import Backend, Frontend, FrontendKey, SourceNat, Verdict
from bridgehead.proxy.mode import Settings
from bridgehead.proxy.nftables.affinity import affinity_difference, affinity_elements
from bridgehead.proxy.nftables.readback import Table, parse_table
from bridgehead.proxy.nftables.render import Renderer
from tests.unit.goldens import check_golden, check_hash_seeds
from tests.unit.proxy.nftables.fake_nft import FakeKernel

GOLDENS = Path(__file__).parents[2] / "goldens" / "nftables"
SETTINGS = Settings((4,), ("10.244.0.0/16",), ("10.96.0.0/12",))

HERE = Backend("10.244.1.1", 8080, "node1", "", True)
THERE = Backend("10.244.2.1", 8080, "node2")
MORE = Backend("10.244.3.1", 8080, "node3")


def frontend(address: str, port: int, *backends: Backend, **more: object) -> Frontend:
    return Frontend(key=FrontendKey(address, "tcp", port), owner="default/web:http", backends=backends, **more)  # type: ignore[arg-type]


WEB = frontend("10.96.0.10", 80, HERE, THERE, source_nat=SourceNat.OUTSIDE)
NODE_PORT = frontend("0.0.0.0", 30080, HERE, cluster_backends=(HERE, THERE), when_empty=Verdict.DROP)
EMPTY = frontend("10.96.0.11", 80)
RANGED = frontend("203.0.113.8", 80, HERE, THERE, source_nat=SourceNat.ALWAYS, source_ranges=("192.0.2.0/24",))
STICKY = frontend("10.96.0.12", 80, HERE, THERE, affinity_seconds=10800)
UDP = Frontend(key=FrontendKey("10.96.0.53", "udp", 53), owner="kube-system/kube-dns:dns", backends=(HERE,))
ALL = (WEB, NODE_PORT, EMPTY, RANGED, UDP)
CLUSTER_IPS = ("10.96.0.10", "10.96.0.11", "10.96.0.53")


def started(*frontends: Frontend) -> Renderer:
    renderer = Renderer(SETTINGS)
    renderer.full(frontends, CLUSTER_IPS, {})
    return renderer


def text_of(name: str) -> str:
    """The text of each golden, by its name."""
    match name:
        case "full":
            return Renderer(SETTINGS).full(ALL, CLUSTER_IPS, {}).text()
        case "full-ipv6":
            six = Frontend(
                key=FrontendKey("fd00:96::10", "tcp", 80),
                owner="default/web:http",
                backends=(Backend("fd00:244:1::1", 8080, "node1", "", True),),
                source_nat=SourceNat.OUTSIDE,
            )
            settings = Settings((6,), ("fd00:244::/32",), ("fd00:96::/112",))
            return Renderer(settings).full((six,), ("fd00:96::10",), {}).text()
        case "full-node-port-addresses":
            return Renderer(Settings((4,), (), (), ("10.0.0.0/24",))).full((NODE_PORT,), (), {}).text()
        case "replace-one-backend":
            new = frontend("10.96.0.10", 80, HERE, MORE, source_nat=SourceNat.OUTSIDE)
            return started(*ALL).change([Change(WEB, new)]).text()
        case "add-one-backend":
            new = frontend("10.96.0.10", 80, HERE, THERE, MORE, source_nat=SourceNat.OUTSIDE)
            return started(*ALL).change([Change(WEB, new)]).text()
        case "last-backend-goes":
            return started(UDP).change([Change(UDP, Frontend(key=UDP.key, owner=UDP.owner))]).text()
        case "full-sticky":
            local = frontend("0.0.0.0", 30080, HERE, cluster_backends=(HERE, THERE), affinity_seconds=10800)
            return Renderer(SETTINGS).full((STICKY, local), ("10.96.0.12",), {}).text()
        case "sticky-replace-one-backend":
            new = frontend("10.96.0.12", 80, HERE, MORE, affinity_seconds=10800)
            return started(WEB, STICKY).change([Change(STICKY, new)]).text()
        case "delete-service":
            return started(*ALL).change([Change(RANGED, None), Change(WEB, None)], ("10.96.0.10",), ()).text()
    raise ValueError(name)


NAMES = (
    "full",
    "full-ipv6",
    "full-node-port-addresses",
    "replace-one-backend",
    "add-one-backend",
    "last-backend-goes",
    "full-sticky",
    "sticky-replace-one-backend",
    "delete-service",
)


@pytest.mark.parametrize("name", NAMES)
def test_the_text_equals_the_golden_file(name: str) -> None:
    check_golden(GOLDENS / f"{name}.nft", text_of(name))


def test_every_golden_file_is_used() -> None:
    assert {path.stem for path in GOLDENS.glob("*")} == set(NAMES)


@pytest.mark.slow
def test_the_text_does_not_depend_on_the_hash_seed() -> None:
    check_hash_seeds("tests.unit.proxy.nftables.test_render")


def test_a_name_that_could_be_nft_syntax_is_not_written() -> None:
    odd = Frontend(key=WEB.key, owner='x" : drop } ; flush ruleset #', backends=WEB.backends)

    assert "flush ruleset" not in Renderer(SETTINGS).full([odd], (), {}).text()


def test_rendering_in_parts_equals_rendering_at_once() -> None:
    whole, parts = FakeKernel(), FakeKernel()
    transaction = Renderer(SETTINGS).full(ALL, CLUSTER_IPS, {})

    whole.apply(transaction.text())
    for text in transaction.chunks(2):
        parts.apply(text)

    assert parts.tables == whole.tables


def test_a_full_sync_removes_stale_rules_and_keeps_correct_ones() -> None:
    kernel = FakeKernel()
    kernel.apply(Renderer(SETTINGS).full(ALL, CLUSTER_IPS, {}).text())
    kernel.table(4).elements["services"]["203.0.113.99 . tcp . 80"] = "goto one-of-7"
    kernel.table(4).elements["endpoints"]["10.96.0.10 . tcp . 80 . 1:1"] = "192.0.2.1 . 1"
    kernel.table(4).chains.add("one-of-7")
    kernel.rules["ip"]["one-of-7"] = []
    table = FrontendTable()

    transaction = Renderer(SETTINGS).full(ALL[:4], CLUSTER_IPS[:2], kernel.read())
    kernel.apply(transaction.text())

    assert transaction.size() == 6, "two for the wrong backend; the stale Service, and three for the one that is gone"
    again = FakeKernel()
    again.apply(Renderer(SETTINGS).full(ALL[:4], CLUSTER_IPS[:2], {}).text())
    assert kernel.tables == again.tables
    assert len(table) == 0


def test_the_affinity_set_exists_while_a_frontend_needs_it() -> None:
    kernel = FakeKernel()
    kernel.apply(Renderer(SETTINGS).full([STICKY], (), {}).text())
    other = frontend("10.96.0.13", 80, MORE, affinity_seconds=5)
    kernel.apply(Renderer(SETTINGS).full([STICKY, other], (), kernel.read()).text())

    text = Renderer(SETTINGS).full([STICKY], (), kernel.read()).text()
    kernel.apply(text)

    assert kernel.table(4).others == {"affinity": "map"}
    assert "delete map" not in text
    kernel.apply(Renderer(SETTINGS).full([WEB], (), kernel.read()).text())
    assert "affinity" not in str(kernel.table(4))


def test_a_changed_timeout_keeps_the_clients() -> None:
    longer = frontend("10.96.0.12", 80, HERE, THERE, affinity_seconds=86400)

    text = started(STICKY).change([Change(STICKY, longer)]).text()

    assert "add map" not in text
    assert "affinity" not in "".join(line for line in text.splitlines() if " element " in line)
    assert "timeout 86400s" in text


def test_frontends_of_one_owner_share_affinity() -> None:
    elsewhere = frontend("203.0.113.8", 80, THERE, HERE, affinity_seconds=10800)
    another = msgspec.structs.replace(STICKY, owner="default/another:http")

    names, numbers = zip(*map(_name_and_numbers, (STICKY, elsewhere, another)), strict=True)

    assert names[0] == names[1] != names[2]
    assert len(set(numbers)) == 1


def _name_and_numbers(sticky: Frontend) -> tuple[str, frozenset[str]]:
    elements = affinity_elements(sticky)
    (name,) = elements["affinity-names"].values()
    return name, frozenset(elements["affinity-choices"].values())


def test_colliding_backend_numbers_are_resolved() -> None:
    many = tuple(Backend(f"10.{n >> 8}.{n & 255}.1", 80) for n in range(12000))
    crowd = frontend("10.96.0.12", 80, *many, affinity_seconds=5)

    elements = affinity_elements(crowd)

    choices = elements["affinity-choices"]
    assert len(set(choices.values())) == len(many)
    assert all(bits.lstrip("0") and bits == bits.lstrip("0") for text in choices.values() for bits in text.split(":"))
    reached = {elements["endpoints"][f"10.96.0.12 . tcp . 80 . {number}"] for number in choices.values()}
    assert len(reached) == len(many)


def test_only_the_difference_of_a_frontend_with_affinity_is_rendered() -> None:
    chance = random.Random(1)
    pool = [Backend(f"10.{n >> 8}.{n & 255}.1", 80) for n in range(4000)]  # with numbers that collide
    before = None
    for size in (3000, 3000, 20, 4000, 1, 0, 3):
        some = chance.sample(pool, size)
        after = frontend("10.96.0.12", 80, *some, cluster_backends=tuple(some[:5]), affinity_seconds=5)

        lost, gained = affinity_difference(before, after)

        had = affinity_elements(before) if before is not None else {}
        for name, has in affinity_elements(after).items():
            was = had.get(name, {})
            assert gained.get(name, {}) == dict(has.items() - was.items())
            assert lost.get(name, {}) == dict(was.items() - has.items())
        before = after


def test_an_unused_family_loses_its_table() -> None:
    assert "delete table ip6 bridgehead\n" in Renderer(SETTINGS).full((), (), {6: Table()}).text()


def test_a_listing_is_parsed_as_it_was_written() -> None:
    listing = b"""{"nftables": [
      {"metainfo": {"version": "1.0.6"}},
      {"table": {"family": "ip", "name": "bridgehead", "handle": 3}},
      {"map": {"name": "services", "elem": [
        [{"elem": {"val": {"concat": ["10.96.0.10", "tcp", 80]}, "comment": "default/web:http"}},
         {"goto": {"target": "one-of-2"}}],
        [{"concat": ["10.96.0.11", "tcp", 80]}, {"drop": null}]]}},
      {"map": {"name": "endpoints", "elem": [
        [{"concat": ["10.96.0.10", "tcp", 80, "1:1"]}, {"concat": ["10.244.1.1", 8080]}]]}},
      {"set": {"name": "cluster-ips", "elem": ["10.96.0.10"]}},
      {"set": {"name": "hairpin"}},
      {"set": {"name": "somebody", "elem": [{"prefix": {"addr": "10.0.0.0", "len": 8}}]}},
      {"chain": {"name": "one-of-2"}},
      {"rule": {"chain": "one-of-2", "expr": []}}]}"""

    table = parse_table(listing, frozenset(("services", "endpoints", "cluster-ips", "hairpin")))

    assert table.elements == {
        "services": {"10.96.0.10 . tcp . 80": "goto one-of-2", "10.96.0.11 . tcp . 80": "drop"},
        "endpoints": {"10.96.0.10 . tcp . 80 . 1:1": "10.244.1.1 . 8080"},
        "cluster-ips": {"10.96.0.10": ""},
        "hairpin": {},
    }
    assert table.chains == {"one-of-2"}
    assert table.others == {"somebody": "set"}


@pytest.mark.parametrize("listing", [b"", b"{}", b"[]", b'{"nftables": [{"map": {}}]}', b'{"nftables": 3}'])
def test_an_unexpected_listing_is_refused(listing: bytes) -> None:
    with pytest.raises(NotUnderstood):
        parse_table(listing, frozenset())
