"""A change that goes to the kernel in parts breaks no connection between them: decisions/0020."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterable

import msgspec
import pytest
from hypothesis import Phase, given
from hypothesis import strategies as st

from bridgehead.proxy.frontend_table import Change, arrange
from bridgehead.proxy.frontends import Backend, Frontend, FrontendKey, SourceNat, Verdict
from bridgehead.proxy.mode import Settings
from bridgehead.proxy.nftables.render import Renderer
from bridgehead.proxy.nftables.transaction import Transaction
from tests.unit.examples import examples
from tests.unit.proxy.nftables.fake_nft import FakeKernel
from tests.unit.proxy.nftables.packets import Packet, outcomes, remembered
from tests.unit.proxy.packets import DROPPED, REJECTED, UNTOUCHED

SETTINGS = Settings((4, 6), ("10.244.0.0/16", "fd00:244::/32"), ("10.96.0.0/12",), own_pod_cidrs=("10.244.1.0/24",))
OTHER_SETTINGS = Settings((4, 6), ("10.244.0.0/15", "fd00:244::/32"), ("10.96.0.0/12",))
SOURCES = {4: ("10.244.1.9", "192.0.2.7", "198.51.100.1"), 6: ("fd00:244::9", "2001:db8::1")}
KEYS = tuple(
    FrontendKey(address, protocol, port)
    for addresses, port in ((("10.96.0.1", "10.96.0.2", "203.0.113.1", "fd00:96::1"), 80), (("0.0.0.0", "::"), 30080))
    for address in addresses
    for protocol in ("tcp", "udp")
)
CLUSTER_IPS = ("10.96.0.1", "10.96.0.2", "fd00:96::1")
Frontends = dict[FrontendKey, Frontend]


def backends(family: int, most: int) -> st.SearchStrategy[tuple[Backend, ...]]:
    net = "10.244.1." if family == 4 else "fd00:244::"
    pool = [Backend(f"{net}{n + 1}", 8080, "node1" if n % 2 else "node2", "", n % 2 == 1) for n in range(most)]
    return st.lists(st.sampled_from(pool), max_size=most, unique=True).map(tuple)


@st.composite
def frontends(draw: st.DrawFn, most: int = 5) -> Frontends:
    found = {}
    for key in draw(st.lists(st.sampled_from(KEYS), unique=True, max_size=4)):
        some = backends(key.family, most)
        ranges = ("192.0.2.0/24",) if key.family == 4 else ("2001:db8::/32",)
        found[key] = Frontend(
            key=key,
            owner=draw(st.sampled_from(("default/web:http", "default/other:http"))),
            backends=draw(some),
            cluster_backends=draw(st.none() | some),
            when_empty=draw(st.sampled_from(Verdict)),
            source_nat=draw(st.sampled_from((SourceNat.HAIRPIN, SourceNat.OUTSIDE, SourceNat.ALWAYS))),
            affinity_seconds=draw(st.sampled_from((None, None, 60, 600))),
            source_ranges=draw(st.sampled_from((None, None, ranges))),
        )
    return found


def cluster_ips(some: Frontends) -> tuple[str, ...]:
    return tuple(dict.fromkeys(key.address for key in some if key.address in CLUSTER_IPS))


def arranged(old: Frontends, new: Frontends) -> Frontends:
    """Return the Frontends as `FrontendTable` has them: backends keep their numbers."""
    found = {key: arrange(old.get(key), frontend) for key, frontend in new.items()}
    return {key: frontend for key, frontend in found.items() if frontend is not None}


def changes(old: Frontends, new: Frontends) -> list[Change]:
    both = sorted(old.keys() | new.keys())
    return [Change(old.get(key), new.get(key)) for key in both if old.get(key) != new.get(key)]


PHASES = (Phase.explicit, Phase.generate)  # to make an example smaller takes minutes
GONE = frozenset((UNTOUCHED,))
Answers = dict[tuple[FrontendKey, str, bool], frozenset[str]]


def look(kernel: FakeKernel, numbers: dict[FrontendKey, frozenset[str]]) -> Answers:
    """Return where the packets of each Frontend can go, from everywhere, whatever their clients did before."""
    found: Answers = {}
    for key in KEYS:
        ip = "ip6" if key.family == 6 else "ip"
        if "filter-output" not in kernel.rules.get(ip, {}):
            continue
        address = {"0.0.0.0": "10.0.0.201", "::": "fd00::201"}.get(key.address, key.address)
        for source in SOURCES[key.family]:
            for is_from_node in (False, True):
                packet = Packet(
                    address,
                    key.protocol,
                    key.port,
                    source,
                    is_from_node,
                    key.is_node_port,
                    numbers.get(key, frozenset()),
                )
                found[key, source, is_from_node] = outcomes(kernel, packet)
    return found


def numbers_in(*kernels: FakeKernel) -> dict[FrontendKey, frozenset[str]]:
    found: dict[FrontendKey, frozenset[str]] = {}
    for kernel in kernels:
        for key in KEYS:
            if not key.is_node_port and ("ip6" if key.family == 6 else "ip") in kernel.tables:
                its = remembered(kernel, Packet(key.address, key.protocol, key.port, ""))
                found[key] = found.get(key, frozenset()) | its
    return found


def check(before: FakeKernel, transaction: Transaction, limit: int, whole: Iterable[FrontendKey] = ()) -> None:
    """After each part, every packet goes where it went before or will go in the end; to what ends, it may be refused.

    The Frontends in `whole` fit into a part, and so change at once.
    """
    after = copy.deepcopy(before)
    after.apply(transaction.text())
    numbers = numbers_in(before, after)
    old, new = look(before, numbers), look(after, numbers)
    kernel = copy.deepcopy(before)
    allowed = {
        about: unmasqueraded(old.get(about, GONE))
        | unmasqueraded(last := new.get(about, GONE))
        | ({REJECTED} if last == GONE else set())
        | backends_of(old, about[0])
        | backends_of(new, about[0])
        for about in old.keys() | new.keys()
        if about[0] not in whole
    }
    for text in transaction.chunks(limit):
        kernel.apply(text)
        for about, now in look(kernel, numbers).items():
            if about[0] in whole:
                first, last = old.get(about, GONE), new.get(about, GONE)
                assert now in (first, last) or (last == GONE and now == {REJECTED}), (about, text)
            else:
                assert unmasqueraded(now) <= allowed[about], (about, text)
    assert kernel.tables == after.tables
    assert kernel.rules == after.rules


def backends_of(answers: Answers, key: FrontendKey) -> set[str]:
    """A Frontend that is too big may for a moment lead who is inside to the backends of others, or they to his."""
    return {
        backend
        for about, some in answers.items()
        if about[0] == key
        for backend in unmasqueraded(some) - {DROPPED, REJECTED, UNTOUCHED}
    }


def unmasqueraded(some: frozenset[str]) -> set[str]:
    """Return the outcomes without the translation of the packet's source, which may differ in a Frontend that is too
    big."""
    return {outcome.removesuffix(" masqueraded") for outcome in some}


def kernel_with(old: Frontends) -> tuple[FakeKernel, Renderer]:
    kernel, renderer = FakeKernel(), Renderer(SETTINGS)
    kernel.apply(renderer.full(old.values(), cluster_ips(old), {}).text())
    return kernel, renderer


@given(old=frontends(), new=frontends(), limit=st.sampled_from((3, 9, 1000)))
@examples(15, phases=PHASES)
def test_a_change_in_parts_never_misdirects_a_packet(old: Frontends, new: Frontends, limit: int) -> None:
    kernel, renderer = kernel_with(old)
    new = arranged(old, new)

    transaction = renderer.change(changes(old, new), cluster_ips(old), cluster_ips(new))

    check(kernel, transaction, limit, whole=KEYS if limit == 1000 else ())


@given(old=frontends(), new=frontends(), limit=st.sampled_from((3, 9, 60)), other_settings=st.booleans())
@examples(12, phases=PHASES)
def test_a_restart_in_parts_never_misdirects_a_packet(
    old: Frontends, new: Frontends, limit: int, other_settings: bool
) -> None:
    """After a restart, backends have other numbers."""
    kernel, _ = kernel_with(old)

    renderer = Renderer(OTHER_SETTINGS if other_settings else SETTINGS)
    transaction = renderer.full(new.values(), cluster_ips(new), kernel.read())

    check(kernel, transaction, limit)


@given(new=frontends(), limit=st.sampled_from((3, 9, 60)))
@examples(10, phases=PHASES)
def test_a_first_sync_in_parts_never_rejects_a_client_it_will_serve(new: Frontends, limit: int) -> None:
    """A sync after a foreign flush rejects no such client either: packets are dropped, so clients retry."""
    transaction = Renderer(SETTINGS).full(new.values(), cluster_ips(new), {})

    check(FakeKernel(), transaction, limit)


@given(old=frontends(), seed=st.integers(0, 1000), limit=st.sampled_from((3, 9, 60)))
@examples(12, phases=PHASES)
def test_a_repair_in_parts_never_makes_routing_worse(old: Frontends, seed: int, limit: int) -> None:
    kernel, renderer = kernel_with(old)
    dice = random.Random(seed)
    for table in kernel.tables.values():
        for name, elements in table.elements.items():
            for key in list(elements):
                if dice.random() < 0.3:
                    del elements[key]
                elif dice.random() < 0.1 and name == "services":
                    elements[key] = "drop"

    transaction = renderer.full(old.values(), cluster_ips(old), kernel.read())

    check(kernel, transaction, limit)


@pytest.mark.parametrize("sizes", [(150, 10), (10, 150), (150, 150)])
@pytest.mark.parametrize("affinity_seconds", [None, 600])
def test_a_frontend_larger_than_a_part_is_split(sizes: tuple[int, int], affinity_seconds: int | None) -> None:
    pool = [Backend(f"10.244.{n >> 8}.{n & 255}", 8080) for n in range(250)]
    dice = random.Random(sum(sizes))
    key = KEYS[0]
    first, second = (
        Frontend(key=key, owner="default/web:http", backends=tuple(dice.sample(pool, size)), affinity_seconds=seconds)
        for size, seconds in zip(sizes, (None, affinity_seconds), strict=True)
    )
    kernel, renderer = kernel_with({key: first})
    for before, after in ((first, second), (second, first), (first, None)):
        new = arranged({key: before}, {key: after}) if after is not None else {}
        transaction = renderer.change(changes({key: before}, new), (), ())
        texts = list(transaction.chunks(80))
        assert len(texts) > 1 or after is None
        check(kernel, transaction, 80)
        kernel.apply(transaction.text())
        first = second if after is None else new[key]
        if after is second:
            second = new[key]
        elif after is not None:
            first = new[key]


def test_a_part_never_exceeds_its_maximum() -> None:
    some = {
        FrontendKey(f"10.96.{n >> 8}.{n & 255}", "tcp", 80): tuple(
            Backend(f"10.244.{n >> 6}.{m}", 8080) for m in range(9)
        )
        for n in range(300)
    }
    old = {key: Frontend(key=key, owner="default/web:http", backends=its[:5]) for key, its in some.items()}
    new = {
        key: msgspec.structs.replace(old[key], owner="other/web:http", backends=its[3:]) for key, its in some.items()
    }
    _, renderer = kernel_with(old)

    texts = list(renderer.change(changes(old, new), (), ()).chunks(100))

    assert len(texts) > 10
    assert max(text.count("\n  ") for text in texts) <= 100


def test_the_walker_follows_the_chains() -> None:
    """The walker interprets chains for the other tests."""
    local = Backend("10.244.1.1", 8080, "node1", "", True)
    other = Backend("10.244.2.1", 8080, "node2")
    key = FrontendKey("10.96.0.1", "tcp", 80)
    owner = "default/web:http"
    ported = Frontend(key=FrontendKey("0.0.0.0", "tcp", 30080), owner=owner, backends=(local,))
    sticky = Frontend(key=FrontendKey("10.96.0.2", "udp", 80), owner=owner, backends=(local,), affinity_seconds=5)
    some = {
        key: Frontend(key=key, owner=owner, backends=(local, other), source_nat=SourceNat.OUTSIDE),
        sticky.key: sticky,
        ported.key: ported,
        KEYS[4]: Frontend(
            key=KEYS[4],
            owner=owner,
            cluster_backends=(other,),
            when_empty=Verdict.DROP,
            source_ranges=("192.0.2.0/24", "10.0.0.0/8"),
        ),
    }
    kernel, _ = kernel_with(some)

    def got(address: str, protocol: str, port: int, source: str) -> frozenset[str]:
        return outcomes(kernel, Packet(address, protocol, port, source))

    assert outcomes(kernel, Packet("10.0.0.201", "tcp", 30080, "192.0.2.7", is_to_node=True)) == {"10.244.1.1 . 8080"}
    assert got("10.0.0.202", "tcp", 30080, "192.0.2.7") == {UNTOUCHED}
    assert got("0.0.0.0", "tcp", 30080, "192.0.2.7") == {UNTOUCHED}, "a pod can send this by a raw socket"
    assert got("10.96.0.1", "tcp", 80, "10.244.9.9") == {"10.244.1.1 . 8080", "10.244.2.1 . 8080"}
    assert got("10.96.0.1", "tcp", 80, "192.0.2.7") == {
        "10.244.1.1 . 8080 masqueraded",
        "10.244.2.1 . 8080 masqueraded",
    }
    assert got("10.96.0.1", "tcp", 81, "192.0.2.7") == {REJECTED}
    assert got("10.96.0.3", "tcp", 80, "192.0.2.7") == {UNTOUCHED}
    assert got("10.96.0.2", "udp", 80, "192.0.2.7") == {"10.244.1.1 . 8080"}
    assert got("203.0.113.1", "tcp", 80, "198.51.100.1") == {DROPPED}
    assert got("203.0.113.1", "tcp", 80, "192.0.2.7") == {DROPPED}
    assert got("203.0.113.1", "tcp", 80, "10.244.1.7") == {"10.244.2.1 . 8080"}
