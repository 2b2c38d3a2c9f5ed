"""What others edit in our nf_tables is put right by what the kernel tells of it, without reading the rest."""

from __future__ import annotations

import contextlib
import random
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address

import pytest

from bridgehead.network.ruleset_events import RulesetEvents, Touched
from bridgehead.objects.meta import ObjectKey
from bridgehead.proxy.addresses import Family
from bridgehead.proxy.changes import FrontendTable
from bridgehead.proxy.frontends import Backend, Frontend, FrontendKey, ServiceFrontends, SourceNat, Verdict
from bridgehead.proxy.mode import NOTHING, Repair, Settings
from bridgehead.proxy.nftables import Kernel, NftablesMode
from bridgehead.proxy.nftables.chains import containers, word
from bridgehead.proxy.nftables.readback import Table, parse_table
from bridgehead.proxy.nftables.render import Renderer
from tests.integration.namespaced import in_namespace

pytestmark = pytest.mark.integration

FAMILIES: tuple[Family, ...] = (4, 6)
SETTINGS = Settings(FAMILIES, ("10.244.0.0/16", "fd00:244::/48"), ("10.96.0.0/12", "fd00:96::/108"))
CONTAINERS = tuple(name for name in containers(4) if "sctp" not in name)


def frontends(service: int) -> ServiceFrontends:
    """A bit of everything."""
    found = []
    for net, pods, node_port in (("10.96.0.", "10.244.1.", "0.0.0.0"), ("fd00:96::", "fd00:244::1:", "::")):
        places = [f"{pods}{service * 8 + number}" for number in range(1 + service % 4)]
        backends = tuple(
            Backend(str(ip_address(place)), 8080 + n, "node1", "", n == 0) for n, place in enumerate(places)
        )
        owner = f"default/s{service}:http"
        for key, more in (
            (FrontendKey(f"{net}{service + 1}", "tcp", 80), {"source_nat": SourceNat.OUTSIDE}),
            (FrontendKey(f"{net}{service + 1}", "udp", 53), {}),
            (FrontendKey(f"{net}{service + 1}", "tcp", 443), {"affinity_seconds": 600}),
            (FrontendKey(node_port, "tcp", 30000 + service), {"inside": backends, "when_empty": Verdict.DROP}),
            (FrontendKey(node_port, "udp", 30100 + service), {"affinity_seconds": 600}),
        ):
            found.append(Frontend(key=key, owner=owner, backends=backends[: service % 3], **more))  # type: ignore[arg-type]
    addresses = tuple(str(ip_address(f"{net}{service + 1}")) for net in ("10.96.0.", "fd00:96::"))
    return ServiceFrontends(service=ObjectKey("default", f"s{service}"), frontends=tuple(found), cluster_ips=addresses)


@dataclass
class World:
    """The mode in the kernel, and an ear for what others do there."""

    mode: NftablesMode
    kernel: Kernel
    events: RulesetEvents
    table: FrontendTable
    heard: dict[int, Sequence[Touched]] = field(default_factory=dict)

    async def start(self) -> None:
        for service in range(6):
            self.table.update(ObjectKey("default", f"s{service}"), frontends(service))
        await self.mode.sync(self.table)
        assert await self.mode.verify(self.table, thoroughly=True) is None
        self.events.read()

    def hear(self) -> None:
        commits = self.events.read()
        assert commits is not None
        assert all(commit.is_whole for commit in commits)
        self.heard |= {commit.generation: commit.touched for commit in commits}

    async def mend(self) -> Repair | None:
        self.hear()
        heard, self.heard = self.heard, {}
        return await self.mode.mend(self.table, heard)

    async def tables(self) -> dict[Family, Table]:
        listings = {family: await self.kernel.list_table(word(family), "bridgehead") for family in FAMILIES}
        return {family: parse_table(listings[family] or b"", frozenset(containers(family))) for family in FAMILIES}

    async def rules(self) -> list[bytes]:
        """In an order that does not tell when each chain was made."""
        return sorted(
            b"\n".join([await self.kernel.list_structure(ip, "bridgehead") or b"" for ip in WORDS]).split(b"\n")
        )

    async def assert_right(self) -> None:
        """Compared with what a new proxy would send."""
        kernel = await self.tables()
        renderer = Renderer(SETTINGS)
        difference = renderer.full(self.table, self.table.cluster_ips(), kernel)
        assert (difference.removed, difference.added) == ({}, {})
        for family in FAMILIES:
            assert kernel[family].chains == {chain.name for chain in renderer.chains(family)}


@contextlib.contextmanager
def opened() -> Iterator[World]:
    with contextlib.closing(Kernel()) as kernel, RulesetEvents() as events:
        yield World(NftablesMode(kernel, SETTINGS), kernel, events, FrontendTable())


def nft(*lines: str) -> None:
    """Somebody else's transaction; the kernel has told of it when this returns."""
    subprocess.run(["nft", "-f", "-"], input="\n".join(lines), text=True, check=True)


EDITS = {
    "an endpoint is gone": (["delete element {ip} bridgehead tcp-endpoints {{ {a}2 . 80 . 0 }}"], Repair(False, 1)),
    "an endpoint is another one": (
        [
            "delete element {ip} bridgehead tcp-endpoints {{ {a}3 . 80 . 1 }}",
            "add element {ip} bridgehead tcp-endpoints {{ {a}3 . 80 . 1 : {p}99 . 9 }}",
        ],
        Repair(False, 2),
    ),
    "deleted and added again": (
        [
            "delete element {ip} bridgehead cluster-ips {{ {a}2 }}",
            "add element {ip} bridgehead cluster-ips {{ {a}2 }}",
        ],
        NOTHING,
    ),
    "added and deleted again": (
        [
            "add element {ip} bridgehead hairpin {{ {p}99 . {p}98 }}",
            "delete element {ip} bridgehead hairpin {{ {p}99 . {p}98 }}",
        ],
        NOTHING,
    ),
    "a Service that nobody has": (
        ["add element {ip} bridgehead services {{ {a}77 . tcp . 80 : drop }}"],
        Repair(False, 1),
    ),
    "a protocol that nobody knows": (["add element {ip} bridgehead nodeports {{ 47 . 80 : drop }}"], Repair(False, 1)),
    "all other Services": (["add element {ip} bridgehead services {{ * : drop }}"], Repair(False, 1)),
    "a Service leads elsewhere": (
        [
            "delete element {ip} bridgehead services {{ {a}2 . tcp . 80 }}",
            "add element {ip} bridgehead services {{ {a}2 . tcp . 80 : goto refuse }}",
        ],
        Repair(False, 2),
    ),
    "a whole set": (["flush set {ip} bridgehead cluster-ips"], Repair(False, 6)),
    "the clients": (["add element {ip} bridgehead affinity {{ {c} timeout 1m : 8000:20 }}"], NOTHING),
    "a rule more": (["insert rule {ip} bridgehead services drop"], Repair(True, 0)),
    "a rule with a set of its own": (
        ["insert rule {ip} bridgehead services {ip} saddr {{ {a}1, {a}2 }} drop"],
        Repair(True, 0),
    ),
    "no rules in a chain with a map": (["flush chain {ip} bridgehead n2-tcp"], Repair(True, 0)),
    "another policy": (["add chain {ip} bridgehead prerouting {{ policy drop; }}"], Repair(True, 0)),
    "a chain more": (
        ["add chain {ip} bridgehead more {{ type filter hook input priority 0; policy drop; }}"],
        Repair(True, 0),
    ),
    "rules and elements": (
        ["flush chain {ip} bridgehead output", "delete element {ip} bridgehead udp-endpoints {{ {a}2 . 53 . 0 }}"],
        Repair(True, 1),
    ),
    "others' tables": (
        ["add table {ip} others", "add set {ip} others s {{ type mark; }}", "add element {ip} others s {{ 1 }}"],
        NOTHING,
    ),
}
TOO_MUCH = {
    "a set more": ["add set {ip} bridgehead more {{ type mark; }}"],
    "another name for a chain": ["rename chain {ip} bridgehead prerouting more"],
    "no table": ["delete table {ip} bridgehead"],
}
WORDS: dict[str, dict[str, str]] = {
    "ip": {"ip": "ip", "a": "10.96.0.", "p": "10.244.1.", "c": "10.244.1.1 . 10.96.0.2"},
    "ip6": {"ip": "ip6", "a": "fd00:96::", "p": "fd00:244::1:", "c": "1 . 2"},
}


@pytest.mark.parametrize("ip", WORDS)
@in_namespace
async def test_an_edit_is_mended_by_itself(ip: str) -> None:
    with opened() as world:
        await world.start()
        before = await world.rules()
        for name, (lines, repair) in EDITS.items():
            nft(*(line.format_map(WORDS[ip]) for line in lines))
            assert await world.mend() == repair, name
            await world.assert_right()
            world.events.read()
            assert await world.mode.verify(world.table, thoroughly=True) is None, name
        assert await world.rules() == before


@in_namespace
async def test_what_is_more_than_edits_of_elements_and_chains_is_looked_at() -> None:
    with opened() as world:
        await world.start()
        for name, lines in TOO_MUCH.items():
            nft(*(line.format_map(WORDS["ip"]) for line in lines))
            assert await world.mend() is None, name
            assert await world.mode.verify(world.table, thoroughly=True) is not None, name
            await world.assert_right()
            world.events.read()
            assert await world.mode.verify(world.table, thoroughly=True) is None, name


@in_namespace
async def test_an_own_change_may_come_before_the_repair() -> None:
    with opened() as world:
        await world.start()
        nft("delete element ip bridgehead cluster-ips { 10.96.0.2 }")
        world.events.pause()
        world.hear()
        await world.mode.apply([world.table.update(ObjectKey("default", "s4"), None)])
        world.events.resume()
        nft("add element ip bridgehead cluster-ips { 10.96.0.99 }")
        assert await world.mend() == Repair(False, 2)
        await world.assert_right()


@in_namespace
async def test_an_edit_that_was_not_heard_leads_to_a_look() -> None:
    with opened() as world:
        await world.start()
        world.events.pause()
        nft("delete element ip bridgehead cluster-ips { 10.96.0.2 }")
        world.events.resume()
        nft("delete element ip bridgehead cluster-ips { 10.96.0.3 }")
        assert await world.mend() is None
        assert await world.mode.verify(world.table, thoroughly=True) == Repair(False, 2)
        await world.assert_right()


@in_namespace
async def test_whatever_is_edited_the_table_is_as_a_new_one() -> None:
    dice = random.Random(1)
    with opened() as world:
        await world.start()
        rules = await world.rules()
        for _ in range(12):
            for _ in range(dice.randint(1, 3)):
                nft(*random_edits(dice, await world.tables()))
            assert await world.mend() is not None
            await world.assert_right()
            world.events.read()
            assert await world.mode.verify(world.table, thoroughly=True) is None
        assert await world.rules() == rules


def random_edits(dice: random.Random, tables: dict[Family, Table]) -> Iterator[str]:
    """A transaction that the kernel takes, of elements that are there, others like those, and rules."""
    there = {(family, name): dict(tables[family].elements.get(name, {})) for family in FAMILIES for name in CONTAINERS}
    for _ in range(dice.randint(1, 8)):
        family, name = dice.choice([place for place, elements in there.items() if elements])
        elements, where = there[family, name], f"{word(family)} bridgehead"
        key = dice.choice(sorted(elements))
        deed = dice.choice(("delete", "replace", "add", "flush", "rule", "chain"))
        if deed in ("delete", "replace"):
            del elements[key]
            yield f"delete element {where} {name} {{ {key} }}"
        if deed == "add":
            key = dice.choice([one for others in there.values() for one in others if is_like(one, key)] + [key])
        if deed in ("replace", "add") and key not in elements:
            elements[key] = dice.choice(sorted({*elements.values(), *tables[family].elements[name].values()}))
            yield f"add element {where} {name} {{ {key}{' : ' if elements[key] else ''}{elements[key]} }}"
        if deed == "flush" and dice.random() < 0.3:
            elements.clear()
            yield f"flush {'map' if 'map' in containers(family)[name].split() else 'set'} {where} {name}"
        if deed == "rule":
            yield f"{dice.choice(('add', 'insert'))} rule {where} {dice.choice(sorted(tables[family].chains))} drop"
        if deed == "chain":
            yield f"flush chain {where} {dice.choice(sorted(tables[family].chains))}"


def is_like(key: str, other: str) -> bool:
    """Whether a container that has the one may have the other."""
    return shape(key) == shape(other)


def shape(key: str) -> list[str]:
    return [
        word if word in ("tcp", "udp") else "".join(sign for sign in ".:" if sign in word) for word in key.split(" . ")
    ]
