"""Edits of our nf_tables by other programs are repaired from the kernel's events, without reading the rest."""

from __future__ import annotations

import contextlib
import random
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address

import pytest

from bridgehead.network.ruleset_events import RulesetChange, RulesetEvents
from bridgehead.objects.meta import ObjectKey
from bridgehead.proxy.address_texts import Family
from bridgehead.proxy.frontend_table import FrontendTable
from bridgehead.proxy.frontends import Backend, Frontend, FrontendKey, ServiceFrontends, SourceNat, Verdict
from bridgehead.proxy.mode import NO_REPAIR, Repair, Settings
from bridgehead.proxy.nftables import Kernel, NftablesMode
from bridgehead.proxy.nftables.chains import containers, family_keyword
from bridgehead.proxy.nftables.readback import Table, parse_table
from bridgehead.proxy.nftables.render import Renderer
from tests.integration.namespaced import in_namespace

pytestmark = [pytest.mark.integration, pytest.mark.needs("nft")]

FAMILIES: tuple[Family, ...] = (4, 6)
SETTINGS = Settings(FAMILIES, ("10.244.0.0/16", "fd00:244::/48"), ("10.96.0.0/12", "fd00:96::/108"))
CONTAINERS = tuple(containers(4))


def frontends(service: int) -> ServiceFrontends:
    """A bit of everything."""
    found = []
    for net, pods, node_port in (("10.96.0.", "10.244.1.", "0.0.0.0"), ("fd00:96::", "fd00:244::1:", "::")):
        addresses = [f"{pods}{service * 8 + number}" for number in range(1 + service % 4)]
        backends = tuple(
            Backend(str(ip_address(container)), 8080 + n, "node1", "", n == 0) for n, container in enumerate(addresses)
        )
        owner = f"default/s{service}:http"
        for key, more in (
            (FrontendKey(f"{net}{service + 1}", "tcp", 80), {"source_nat": SourceNat.OUTSIDE}),
            (FrontendKey(f"{net}{service + 1}", "udp", 53), {}),
            (FrontendKey(f"{net}{service + 1}", "tcp", 443), {"affinity_seconds": 600}),
            (
                FrontendKey(node_port, "tcp", 30000 + service),
                {"cluster_backends": backends, "when_empty": Verdict.DROP},
            ),
            (FrontendKey(node_port, "udp", 30100 + service), {"affinity_seconds": 600}),
        ):
            found.append(Frontend(key=key, owner=owner, backends=backends[: service % 3], **more))
    ips = tuple(str(ip_address(f"{net}{service + 1}")) for net in ("10.96.0.", "fd00:96::"))
    return ServiceFrontends(service=ObjectKey("default", f"s{service}"), frontends=tuple(found), cluster_ips=ips)


@dataclass
class World:
    """The mode in the kernel, and an ear for what others do there."""

    mode: NftablesMode
    kernel: Kernel
    events: RulesetEvents
    table: FrontendTable
    observed: dict[int, Sequence[RulesetChange]] = field(default_factory=dict)

    async def start(self) -> None:
        for service in range(6):
            self.table.update(ObjectKey("default", f"s{service}"), frontends(service))
        await self.mode.sync(self.table)
        assert await self.mode.verify(self.table, thoroughly=True) is None
        self.events.read()

    def observe(self) -> None:
        commits = self.events.read()
        assert commits is not None
        assert all(commit.is_whole for commit in commits)
        self.observed |= {commit.generation: commit.changes for commit in commits}

    async def repair(self) -> Repair | None:
        self.observe()
        observed, self.observed = self.observed, {}
        return await self.mode.repair(self.table, observed)

    async def tables(self) -> dict[Family, Table]:
        listings = {family: await self.kernel.list_table(family_keyword(family), "bridgehead") for family in FAMILIES}
        return {family: parse_table(listings[family] or b"", frozenset(containers(family))) for family in FAMILIES}

    async def rules(self) -> list[bytes]:
        """Return the rules in an order independent of the creation of chains."""
        return sorted(
            b"\n".join([await self.kernel.list_structure(ip, "bridgehead") or b"" for ip in VALUES]).split(b"\n")
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
    """Make a foreign transaction; the kernel has reported it when this returns."""
    subprocess.run(["nft", "-f", "-"], input="\n".join(lines), text=True, check=True)


EDITS = {
    "an endpoint is gone": (["delete element {ip} bridgehead endpoints {{ {a}2 . tcp . 80 . 1:1 }}"], Repair(False, 1)),
    "an endpoint is another one": (
        [
            "delete element {ip} bridgehead endpoints {{ {a}3 . tcp . 80 . 1:2 }}",
            "add element {ip} bridgehead endpoints {{ {a}3 . tcp . 80 . 1:2 : {p}99 . 9 }}",
        ],
        Repair(False, 2),
    ),
    "deleted and added again": (
        [
            "delete element {ip} bridgehead cluster-ips {{ {a}2 }}",
            "add element {ip} bridgehead cluster-ips {{ {a}2 }}",
        ],
        NO_REPAIR,
    ),
    "added and deleted again": (
        [
            "add element {ip} bridgehead hairpin {{ {p}99 . {p}98 }}",
            "delete element {ip} bridgehead hairpin {{ {p}99 . {p}98 }}",
        ],
        NO_REPAIR,
    ),
    "a Service that nobody has": (
        ["add element {ip} bridgehead services {{ {a}77 . tcp . 80 : drop }}"],
        Repair(False, 1),
    ),
    "a protocol that nobody knows": (
        ["add element {ip} bridgehead services {{ {a}2 . 47 . 80 : drop }}"],
        Repair(False, 1),
    ),
    "all other Services": (["add element {ip} bridgehead services {{ * : drop }}"], Repair(False, 1)),
    "a Service leads elsewhere": (
        [
            "delete element {ip} bridgehead services {{ {a}2 . tcp . 80 }}",
            "add element {ip} bridgehead services {{ {a}2 . tcp . 80 : goto reject-chain }}",
        ],
        Repair(False, 2),
    ),
    "a whole set": (["flush set {ip} bridgehead cluster-ips"], Repair(False, 6)),
    "the clients": (["add element {ip} bridgehead affinity {{ {c} timeout 1m : 8000:20 }}"], NO_REPAIR),
    "a rule more": (["insert rule {ip} bridgehead nat-output drop"], Repair(True, 0)),
    "a rule with a set of its own": (
        ["insert rule {ip} bridgehead nat-output {ip} saddr {{ {a}1, {a}2 }} drop"],
        Repair(True, 0),
    ),
    "no rules in a chain of Frontends": (["flush chain {ip} bridgehead one-of-3-or-fewer"], Repair(True, 0)),
    "another policy": (["add chain {ip} bridgehead nat-prerouting {{ policy drop; }}"], Repair(True, 0)),
    "a chain more": (
        ["add chain {ip} bridgehead more {{ type filter hook input priority 0; policy drop; }}"],
        Repair(True, 0),
    ),
    "rules and elements": (
        [
            "flush chain {ip} bridgehead nat-output",
            "delete element {ip} bridgehead endpoints {{ {a}2 . udp . 53 . 1:1 }}",
        ],
        Repair(True, 1),
    ),
    "others' tables": (
        ["add table {ip} others", "add set {ip} others s {{ type mark; }}", "add element {ip} others s {{ 1 }}"],
        NO_REPAIR,
    ),
}
TOO_MUCH = {
    "a set more": ["add set {ip} bridgehead more {{ type mark; }}"],
    "another name for a chain": ["rename chain {ip} bridgehead nat-prerouting more"],
    "no table": ["delete table {ip} bridgehead"],
}
VALUES: dict[str, dict[str, str]] = {
    "ip": {"ip": "ip", "a": "10.96.0.", "p": "10.244.1.", "c": "10.244.1.1 . 10.96.0.2"},
    "ip6": {"ip": "ip6", "a": "fd00:96::", "p": "fd00:244::1:", "c": "1 . 2"},
}


@pytest.mark.parametrize("ip", VALUES)
@in_namespace
async def test_an_edit_of_one_object_is_repaired_without_a_full_check(ip: str) -> None:
    with opened() as world:
        await world.start()
        before = await world.rules()
        for name, (lines, repair) in EDITS.items():
            nft(*(line.format_map(VALUES[ip]) for line in lines))
            assert await world.repair() == repair, name
            await world.assert_right()
            world.events.read()
            assert await world.mode.verify(world.table, thoroughly=True) is None, name
        assert await world.rules() == before


@in_namespace
async def test_edits_of_other_objects_lead_to_a_full_check() -> None:
    with opened() as world:
        await world.start()
        for name, lines in TOO_MUCH.items():
            nft(*(line.format_map(VALUES["ip"]) for line in lines))
            assert await world.repair() is None, name
            assert await world.mode.verify(world.table, thoroughly=True) is not None, name
            await world.assert_right()
            world.events.read()
            assert await world.mode.verify(world.table, thoroughly=True) is None, name


@in_namespace
async def test_a_change_of_the_proxy_before_the_repair_does_not_prevent_it() -> None:
    with opened() as world:
        await world.start()
        nft("delete element ip bridgehead cluster-ips { 10.96.0.2 }")
        world.events.pause()
        world.observe()
        await world.mode.apply([world.table.update(ObjectKey("default", "s4"), None)])
        world.events.resume()
        nft("add element ip bridgehead cluster-ips { 10.96.0.99 }")
        assert await world.repair() == Repair(False, 2)
        await world.assert_right()


@in_namespace
async def test_an_unobserved_edit_leads_to_a_full_check() -> None:
    with opened() as world:
        await world.start()
        world.events.pause()
        nft("delete element ip bridgehead cluster-ips { 10.96.0.2 }")
        world.events.resume()
        nft("delete element ip bridgehead cluster-ips { 10.96.0.3 }")
        assert await world.repair() is None
        assert await world.mode.verify(world.table, thoroughly=True) == Repair(False, 2)
        await world.assert_right()


@in_namespace
async def test_random_edits_are_repaired_to_the_original_table() -> None:
    dice = random.Random(1)
    with opened() as world:
        await world.start()
        rules = await world.rules()
        for _ in range(12):
            for _ in range(dice.randint(1, 3)):
                nft(*random_edits(dice, await world.tables()))
            assert await world.repair() is not None
            await world.assert_right()
            world.events.read()
            assert await world.mode.verify(world.table, thoroughly=True) is None
        assert await world.rules() == rules


def random_edits(dice: random.Random, tables: dict[Family, Table]) -> Iterator[str]:
    """A transaction that the kernel takes, of elements that are there, others like those, and rules."""
    there = {(family, name): dict(tables[family].elements.get(name, {})) for family in FAMILIES for name in CONTAINERS}
    for _ in range(dice.randint(1, 8)):
        family, name = dice.choice([container for container, elements in there.items() if elements])
        elements, where = there[family, name], f"{family_keyword(family)} bridgehead"
        key = dice.choice(sorted(elements))
        operation = dice.choice(("delete", "replace", "add", "flush", "rule", "chain"))
        if operation in ("delete", "replace"):
            del elements[key]
            yield f"delete element {where} {name} {{ {key} }}"
        if operation == "add":
            key = dice.choice([one for others in there.values() for one in others if is_like(one, key)] + [key])
        if operation in ("replace", "add") and key not in elements:
            elements[key] = dice.choice(sorted({*elements.values(), *tables[family].elements[name].values()}))
            yield f"add element {where} {name} {{ {key}{' : ' if elements[key] else ''}{elements[key]} }}"
        if operation == "flush" and dice.random() < 0.3:
            elements.clear()
            yield f"flush {'map' if 'map' in containers(family)[name].split() else 'set'} {where} {name}"
        if operation == "rule":
            yield f"{dice.choice(('add', 'insert'))} rule {where} {dice.choice(sorted(tables[family].chains))} drop"
        if operation == "chain":
            yield f"flush chain {where} {dice.choice(sorted(tables[family].chains))}"


def is_like(key: str, other: str) -> bool:
    """Whether a container that has the one may have the other."""
    return shape(key) == shape(other)


def shape(key: str) -> list[str]:
    return [
        word if word in ("tcp", "udp") else "".join(sign for sign in ".:" if sign in word) for word in key.split(" . ")
    ]
