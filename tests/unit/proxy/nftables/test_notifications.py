"""Edits of the proxy's tables by others, parsed from the kernel's notifications."""

from __future__ import annotations

import struct
from ipaddress import ip_address

import pytest

from bridgehead.network.netlink_attributes import attribute, be32, nest, text
from bridgehead.network.ruleset_events import RulesetChange
from bridgehead.network.uapi import nf_tables as nft
from bridgehead.network.uapi.netfilter import NF_ACCEPT, NF_DROP
from bridgehead.proxy.nftables.notifications import Edits, parse_edits
from bridgehead.proxy.nftables.render import EVERYTHING
from bridgehead.proxy.nftables.transaction import Container

TABLE = "bridgehead"


def padded(value: bytes) -> bytes:
    return value + bytes(-len(value) % 4)


def address(value: str) -> bytes:
    return ip_address(value).packed


def frontend(ip: str, protocol: int, port: int) -> bytes:
    return address(ip) + padded(bytes((protocol,))) + padded(port.to_bytes(2))


def class_number(major: int, minor: int) -> bytes:
    return struct.pack("=I", major << 16 | minor)


def data(value: bytes) -> bytes:
    return attribute(nft.NFTA_DATA_VALUE, value)


def verdict(code: int, chain: str = "") -> bytes:
    target = text(nft.NFTA_VERDICT_CHAIN, chain) if chain else b""
    return nest(nft.NFTA_DATA_VERDICT, attribute(nft.NFTA_VERDICT_CODE, struct.pack("!i", code)) + target)


def element(key: bytes | None = None, value: bytes | None = None, flags: int | None = None, more: bytes = b"") -> bytes:
    parts = b"" if key is None else nest(nft.NFTA_SET_ELEM_KEY, data(key))
    parts += b"" if value is None else nest(nft.NFTA_SET_ELEM_DATA, value)
    parts += b"" if flags is None else be32(nft.NFTA_SET_ELEM_FLAGS, flags)
    return nest(nft.NFTA_LIST_ELEM, parts + more)


def change(container: str, elements: bytes, *, family: str = "ip", is_deleted: bool = False) -> RulesetChange:
    return RulesetChange(family, TABLE, "", container, elements, is_deleted)


def edits(*changes: RulesetChange) -> Edits | None:
    return parse_edits(changes, TABLE, (4, 6))


IPV4 = frontend("10.96.0.1", 6, 443)
CLASS = class_number(1, 2)


@pytest.mark.parametrize(
    ("container", "encoded", "expected"),
    [
        ("cluster-ips", element(address("10.96.0.1")), {"10.96.0.1": ""}),
        ("hairpin", element(address("10.0.0.1") + address("10.0.0.2")), {"10.0.0.1 . 10.0.0.2": ""}),
        ("services", element(IPV4, verdict(nft.NFT_GOTO, "x")), {"10.96.0.1 . tcp . 443": "goto x"}),
        ("services", element(IPV4, verdict(nft.NFT_JUMP, "x")), {"10.96.0.1 . tcp . 443": "jump x"}),
        ("services", element(IPV4, verdict(NF_DROP)), {"10.96.0.1 . tcp . 443": "drop"}),
        ("services", element(IPV4, verdict(NF_ACCEPT)), {"10.96.0.1 . tcp . 443": "accept"}),
        ("services", element(IPV4, verdict(nft.NFT_RETURN)), {"10.96.0.1 . tcp . 443": "return"}),
        ("services", element(IPV4, verdict(nft.NFT_CONTINUE)), {"10.96.0.1 . tcp . 443": "continue"}),
        ("services", element(frontend("1.2.3.4", 17, 53), verdict(NF_DROP)), {"1.2.3.4 . udp . 53": "drop"}),
        ("services", element(frontend("1.2.3.4", 132, 9), verdict(NF_DROP)), {"1.2.3.4 . sctp . 9": "drop"}),
        ("services", element(frontend("1.2.3.4", 1, 9), verdict(NF_DROP)), {"1.2.3.4 . 1 . 9": "drop"}),
        (
            "endpoints",
            element(IPV4 + CLASS, data(address("10.0.0.7") + padded((8080).to_bytes(2)))),
            {"10.96.0.1 . tcp . 443 . 1:2": "10.0.0.7 . 8080"},
        ),
        ("affinity-names", element(IPV4, data(address("240.0.0.1"))), {"10.96.0.1 . tcp . 443": "240.0.0.1"}),
        ("affinity-choices", element(IPV4 + CLASS, data(CLASS)), {"10.96.0.1 . tcp . 443 . 1:2": "1:2"}),
        (
            "cluster-ips",
            element(address("10.0.0.1"), more=attribute(nft.NFTA_SET_ELEM_USERDATA, b"comment"))
            + element(address("10.0.0.2")),
            {"10.0.0.1": "", "10.0.0.2": ""},
        ),
        ("services", element(None, verdict(NF_DROP), nft.NFT_SET_ELEM_CATCHALL), {EVERYTHING: "drop"}),
    ],
)
def test_an_added_element(container, encoded, expected):
    """Keys and values are those that nft writes."""
    assert edits(change(container, encoded)) == Edits({Container(4, container): expected})


def test_an_added_element_of_ipv6():
    key = frontend("fd00::1", 6, 80)
    found = edits(
        change("services", element(key, verdict(nft.NFT_GOTO, "x")), family="ip6"),
        change("cluster-ips", element(address("fd00::1")), family="ip6"),
    )
    assert found == Edits(
        {
            Container(6, "services"): {"fd00::1 . tcp . 80": "goto x"},
            Container(6, "cluster-ips"): {"fd00::1": ""},
        }
    )


def test_a_deleted_element_has_no_value():
    """The kernel's notification has the value or not; what counts is that the element is gone."""
    for value in (None, verdict(NF_DROP)):
        found = edits(change("services", element(IPV4, value), is_deleted=True))
        assert found == Edits({Container(4, "services"): {"10.96.0.1 . tcp . 443": None}})


def test_the_last_notification_of_an_element_counts():
    added = change("cluster-ips", element(address("10.0.0.1")))
    deleted = added._replace(is_deleted=True)
    assert edits(added, deleted) == Edits({Container(4, "cluster-ips"): {"10.0.0.1": None}})
    assert edits(deleted, added) == Edits({Container(4, "cluster-ips"): {"10.0.0.1": ""}})


def test_chains():
    """A change of a rule is one of its chain, which exists; the last notification counts."""
    made = RulesetChange("ip", TABLE, "nat-output")
    deleted = RulesetChange("ip6", TABLE, "nat-output", is_deleted=True)
    assert edits(made, deleted) == Edits(chains={(4, "nat-output"): True, (6, "nat-output"): False})
    assert edits(made._replace(is_deleted=True), made) == Edits(chains={(4, "nat-output"): True})


@pytest.mark.parametrize(
    "notification",
    [
        RulesetChange("ip", "another", "nat-output"),
        RulesetChange("inet", TABLE, "nat-output"),
        RulesetChange("ip", TABLE, "", "__set7", element(address("10.0.0.1"))),
        RulesetChange("ip", TABLE, "", "__set7"),
        change("affinity", element(address("10.0.0.1"))),
    ],
    ids=["another table", "another family", "anonymous elements", "anonymous set", "clients, of the kernel"],
)
def test_changes_that_need_no_repair(notification):
    found = edits(notification)
    assert found is not None
    assert not found


def test_a_family_that_the_proxy_does_not_serve():
    assert parse_edits([change("cluster-ips", element(address("fd00::1")), family="ip6")], TABLE, (4,)) == Edits()


@pytest.mark.parametrize(
    "notification",
    [
        RulesetChange("ip", TABLE),
        RulesetChange("ip", TABLE, "", "services"),
        change("services-2", element(address("10.0.0.1"))),
        change("cluster-ips", element(address("10.0.0.1"), flags=1)),
        change("cluster-ips", element(address("10.0.0.1"), more=attribute(99, b"x"))),
        change("cluster-ips", element(b"\x0a\0")),
        change("cluster-ips", element(address("10.0.0.1") + bytes(4))),
        change("cluster-ips", element()),
        change("services", element(IPV4)),
        change("services", element(IPV4, verdict(-99))),
        change("services", element(IPV4, nest(nft.NFTA_DATA_VERDICT, attribute(nft.NFTA_VERDICT_CODE, b"\0")))),
        change("affinity-names", element(IPV4)),
    ],
    ids=[
        "the table",
        "a declaration",
        "an unknown container",
        "unknown flags",
        "an unknown attribute",
        "a short key",
        "a long key",
        "no key",
        "a verdict map without a verdict",
        "an unknown verdict",
        "a short verdict",
        "no value",
    ],
)
def test_changes_that_need_a_full_sync(notification):
    assert edits(change("cluster-ips", element(address("10.0.0.9"))), notification) is None
