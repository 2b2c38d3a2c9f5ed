"""Transactions in parts: sizes, sections, and chains that are edited rule by rule."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.proxy.iptables.transaction import SECTIONS_AT_ONCE, Transaction, _bytes_of
from tests.unit.proxy.iptables.fake_iptables import FakeIptables

CHAINS = ("KUBE-SERVICES", "KUBE-NODEPORTS")
RULES = tuple(f"-d 10.96.0.{number}/32 -j DROP" for number in range(12))
CLOSING = tuple(f"-d 10.{number}.0.0/16 -j KUBE-CLUSTER-IPS" for number in (96, 97))
Chains = dict[str, list[str]]


def contents(*, unique: bool) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from((*RULES, *CLOSING)), max_size=14, unique=unique)


@st.composite
def wanted_contents(draw: st.DrawFn) -> list[str]:
    rules = draw(st.lists(st.sampled_from(RULES), max_size=14, unique=True))
    return [*rules, *CLOSING[: draw(st.integers(0, len(CLOSING)))]]


def kernel_with(chains: Chains) -> FakeIptables:
    kernel = FakeIptables()
    kernel.tables["filter"].chains["KUBE-CLUSTER-IPS"] = []
    kernel.tables["filter"].chains.update({name: list(rules) for name, rules in chains.items()})
    return kernel


def to(wanted: Chains, kernel: FakeIptables) -> Transaction:
    """Return the transaction that gives the kernel's chains this content, as a full sync makes it."""
    transaction = Transaction()
    part = transaction.part(4, "filter")
    for name, rules in wanted.items():
        present = kernel.tables["filter"].chains.get(name)
        if present != rules:
            part.written[name] = tuple(rules)
            if present is not None:
                part.present[name] = list(present)
    return transaction


def content(kernel: FakeIptables) -> Chains:
    return {name: kernel.tables["filter"].chains[name] for name in CHAINS}


def sections(text: str) -> Iterator[str]:
    return (f"{section}COMMIT\n" for section in text.split("COMMIT\n") if section)


def is_subsequence(some: list[str], of: list[str]) -> bool:
    rest = iter(of)
    return all(rule in rest for rule in some)


@given(data=st.data(), limit=st.sampled_from((200, 700, 2000)))
def test_a_chain_that_is_edited_keeps_its_rules_in_order(data: st.DataObject, limit: int) -> None:
    old = {name: data.draw(contents(unique=True)) for name in CHAINS}
    new = {name: data.draw(wanted_contents()) for name in CHAINS}
    kernel = kernel_with(old)

    for _, text in to(new, kernel).chunks(limit):
        kernel.restore(text)
        for name, rules in content(kernel).items():
            assert set(rules) >= set(old[name]) & set(new[name]), "a rule that stays is never missing"
            assert is_subsequence([rule for rule in rules if rule not in old[name]], new[name])
            assert is_subsequence([rule for rule in rules if rule not in new[name]], old[name])

    assert content(kernel) == new


@given(data=st.data(), limit=st.sampled_from((200, 700, 2000)))
def test_a_chain_with_repeated_rules_becomes_what_is_wanted(data: st.DataObject, limit: int) -> None:
    old = {name: data.draw(contents(unique=False)) for name in CHAINS}
    new = {name: data.draw(wanted_contents()) for name in CHAINS}
    kernel = kernel_with(old)

    for _, text in to(new, kernel).chunks(limit):
        kernel.restore(text)

    assert content(kernel) == new


@given(data=st.data(), limit=st.sampled_from((200, 700, 2000)), after=st.integers(0, 12))
def test_a_chain_that_another_program_changes_meanwhile_is_right_after_the_next_sync(
    data: st.DataObject, limit: int, after: int
) -> None:
    """A part that does not fit any more is refused, or makes a chain wrong; a sync from what is there repairs both."""
    old = {name: data.draw(contents(unique=True)) for name in CHAINS}
    new = {name: data.draw(wanted_contents()) for name in CHAINS}
    kernel = kernel_with(old)
    is_disturbed = False
    try:
        for number, (_, text) in enumerate(to(new, kernel).chunks(limit)):
            if number == after:
                is_disturbed = True
                kernel.tables["filter"].chains[CHAINS[0]] = data.draw(contents(unique=False))
            kernel.restore(text)
    except ValueError:
        assert is_disturbed

    for _, text in to(new, kernel).chunks(limit):
        kernel.restore(text)

    assert content(kernel) == new


def services(count: int) -> Transaction:
    transaction = Transaction()
    rule = '-d 10.96.0.1/32 -p tcp -m comment --comment "default/a: cluster IP" -m tcp --dport 80 -j DROP'
    for number in range(count):
        transaction.part(4, "nat").written[f"KUBE-SVC-{number:016}"] = (rule, rule)
        transaction.part(6, "nat").written[f"KUBE-SVC-{number:016}"] = (rule,)
    return transaction


def test_one_input_has_several_sections_of_one_family() -> None:
    transaction = services(100)
    limit = 5000

    inputs = list(transaction.inputs(limit))

    assert not transaction.fits(limit)
    assert [(family, section) for family, text in inputs for section in sections(text)] == list(
        transaction.chunks(limit)
    )
    counts = [(family, text.count("COMMIT\n")) for family, text in inputs]
    of_four = [count for family, count in counts if family == 4]
    assert counts == sorted(counts, key=lambda count: count[0])
    assert of_four[:-1] == [SECTIONS_AT_ONCE] * (len(of_four) - 1)
    assert len(of_four) > 2
    for _, text in inputs:
        for section in sections(text):
            assert sum(map(_bytes_of, section.splitlines()[1:-1])) <= limit


def test_a_deletion_counts_as_much_as_the_rule() -> None:
    """iptables-nft sends the whole rule: deletions by number have the same size as what they delete."""
    name = "KUBE-SVC-UKKMGCEU2N4MS7DJ"
    rules = tuple(
        f'-m comment --comment "default/sticky: -> 10.244.1.1:{port}" -m recent --rcheck --seconds 10800 --reap '
        "--name KUBE-SEP-B4IJ5EWINVV3C7YN --mask 255.255.255.255 --rsource -j KUBE-SEP-B4IJ5EWINVV3C7YN"
        for port in range(1000, 1100)
    )
    transaction = Transaction()
    part = transaction.part(4, "nat")
    part.present[name], part.written[name] = rules, tuple(f"-j KUBE-SEP-{number:016}" for number in range(40))
    limit = 8000

    deletions = [text.count(f"\n-D {name} ") for _, text in transaction.chunks(limit)]

    assert sum(deletions) == len(rules)
    assert max(deletions) * 784 <= limit


def test_a_transaction_that_fits_is_one_input_for_each_family() -> None:
    transaction = services(5)

    assert transaction.fits(1 << 20)
    assert list(transaction.inputs(1 << 20)) == list(transaction.texts().items())
    assert not transaction.fits(10_000)
    assert list(Transaction().inputs(1)) == []


# Bytes that iptables-nft-restore 1.8.9 passed to sendmsg for each line.
SENT = (
    (132, ":KUBE-SEP-ILQTVSVYMGAKOQWC - [0:0]"),
    (168, "-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000"),
    (208, "-A KUBE-EXT-SVSBTL7F3VZFJPIM -j KUBE-SVC-SVSBTL7F3VZFJPIM"),
    (296, "-A KUBE-CLUSTER-IPS -d fd00:96::10/128 -j KUBE-REFUSE"),
    (484, '-I POSTROUTING -m comment --comment "kubernetes postrouting rules" -j KUBE-POSTROUTING'),
    (508, '-A KUBE-SVC-CDGGSHYLG3RE2FKL -m comment --comment "default/web:http -> [fd00:244:1::1]:8080" '
          "-j KUBE-SEP-7VSOGGIEDZMFGVVN"),
    (548, "-A KUBE-FORWARD -d 10.96.0.0/12 -m conntrack --ctstate INVALID -j DROP"),
    (580, '-A KUBE-SVC-CDGGSHYLG3RE2FKL -m comment --comment "default/web:http -> 10.244.1.1:8080" '
          "-m statistic --mode random --probability 0.5000000000 -j KUBE-SEP-5KQ7U4LVWRJCDUUN"),
    (604, '-A KUBE-SEP-7VSOGGIEDZMFGVVN -s fd00:244:1::1/128 -m comment --comment "default/web:http" '
          "-j KUBE-MARK-MASQ"),
    (616, '-A KUBE-FORWARD -m comment --comment "kubernetes forwarding rules" -m mark --mark 0x4000/0x4000 -j ACCEPT'),
    (656, '-A KUBE-SERVICES -d 10.96.0.0/12 -m comment --comment "cluster IPs and ports that no Service has" '
          "-j KUBE-CLUSTER-IPS"),
    (656, '-A KUBE-SEP-5KQ7U4LVWRJCDUUN -p tcp -m comment --comment "default/web:http" -m tcp '
          "-j DNAT --to-destination 10.244.1.1:8080"),
    (684, "-A KUBE-FIREWALL -p tcp -m conntrack --ctstate INVALID -m tcp --tcp-flags RST,ACK RST "
          "-m addrtype --src-type LOCAL -j DROP"),
    (780, '-A KUBE-SERVICES -d fd00:96::10/128 -p tcp -m comment --comment "default/web:http cluster IP" '
          "-m tcp --dport 80 -j KUBE-SVC-CDGGSHYLG3RE2FKL"),
    (784, '-A KUBE-SVC-UKKMGCEU2N4MS7DJ -m comment --comment "default/sticky: -> 10.244.1.1:8080" -m recent '
          "--rcheck --seconds 10800 --reap --name KUBE-SEP-B4IJ5EWINVV3C7YN --mask 255.255.255.255 --rsource "
          "-j KUBE-SEP-B4IJ5EWINVV3C7YN"),
    (932, '-A KUBE-SEP-7VSOGGIEDZMFGVVN -p tcp -m comment --comment "default/web:http" -m recent --set '
          "--name KUBE-SEP-7VSOGGIEDZMFGVVN --mask ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff --rsource -m tcp "
          "-j DNAT --to-destination [fd00:244:1::1]:8080"),
    (980, '-A KUBE-SVC-CDGGSHYLG3RE2FKL ! -s 10.244.0.0/16 -d 10.96.0.10/32 -p tcp -m comment '
          '--comment "default/web:http cluster IP" -m iprange ! --src-range 10.245.0.0-10.245.255.255 '
          "-m tcp --dport 80 -j KUBE-MARK-MASQ"),
)  # fmt: skip


@pytest.mark.parametrize(("size", "line"), SENT)
def test_the_size_of_a_line_is_estimated_neither_too_low_nor_much_too_high(size: int, line: str) -> None:
    assert size <= _bytes_of(line) <= 1.5 * size
