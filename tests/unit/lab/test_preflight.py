"""Features of a lab by the machine's abilities: address families, a DNS on each node, the store."""

from __future__ import annotations

import pytest

from bridgehead.lab import preflight
from bridgehead.lab.errors import LabError, Unsupported
from bridgehead.lab.plan import LabConfig
from bridgehead.lab.preflight import choose_ip_family, choose_node_dns, choose_store

LACK = "this kernel has no IPv6"


def config(family):
    return LabConfig(name="lab", nodes=1, port=6443, ip_family=family)


@pytest.mark.parametrize(
    ("wanted", "before", "lack", "chosen"),
    [
        (None, None, "", "dual"),
        (None, None, LACK, "ipv4"),
        ("ipv4", None, "", "ipv4"),
        ("ipv4", None, LACK, "ipv4"),
        ("ipv6", None, "", "ipv6"),
        (None, "ipv4", "", "ipv4"),  # its Services have their addresses
        (None, "ipv6", "", "ipv6"),
        ("dual", "dual", "", "dual"),
    ],
)
def test_the_ip_family_is_requested_stored_or_detected(wanted, before, lack, chosen):
    assert choose_ip_family(wanted, before and config(before), lack) == chosen


@pytest.mark.parametrize(
    ("wanted", "before", "lack", "error", "message"),
    [
        ("dual", None, LACK, Unsupported, r"cannot have IPv6 \(this kernel has no IPv6\)"),
        ("ipv6", None, LACK, Unsupported, "--ip-family ipv4"),
        (None, "dual", LACK, Unsupported, "this kernel has no IPv6"),
        ("ipv4", "dual", "", LabError, "was made with --ip-family dual"),
        ("dual", "ipv4", LACK, LabError, "was made with --ip-family ipv4"),
    ],
)
def test_missing_kernel_features_are_reported_in_one_line(wanted, before, lack, error, message):
    with pytest.raises(error, match=message) as caught:
        choose_ip_family(wanted, before and config(before), lack)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("wanted", "before", "kernel", "chosen"),
    [
        (None, None, "6.18.44-generic", False),
        (None, None, "5.7.0-rc1", False),
        (None, None, "5.6.19", True),
        (None, None, "4.19.0-27-amd64", True),
        (None, None, "unheard of", False),
        (True, None, "6.1.0", True),
        (False, None, "5.4.0", False),
        (None, True, "6.1.0", True),
        (None, False, "5.4.0", False),
        (False, True, "5.4.0", False),
    ],
)
def test_node_dns_is_enabled_on_request_or_by_an_old_kernel(wanted, before, kernel, chosen):
    lab = None if before is None else LabConfig(name="lab", nodes=1, port=6443, node_dns=before)
    assert choose_node_dns(wanted, lab, kernel) is chosen


def on(store, servers):
    return LabConfig(name="lab", nodes=1, port=6443, store=store, api_servers=servers)


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The programs that the machine has."""
    found = {"etcd"}
    monkeypatch.setattr(preflight, "find_system_program", lambda name: name if name in found else None)
    return found


@pytest.mark.parametrize(
    ("store", "servers", "before", "chosen"),
    [
        (None, None, None, ("sqlite", 1)),
        ("etcd", None, None, ("etcd", 1)),
        ("etcd", 3, None, ("etcd", 3)),
        (None, None, on("etcd", 3), ("etcd", 3)),
        ("etcd", 3, on("etcd", 3), ("etcd", 3)),
        ("sqlite", 1, on("sqlite", 1), ("sqlite", 1)),
    ],
)
def test_the_store_is_requested_or_stored(programs, store, servers, before, chosen):
    assert choose_store(store, servers, before) == chosen


@pytest.mark.parametrize(
    ("store", "servers", "before", "message"),
    [
        (None, 3, None, "--api-servers 3 --store etcd"),
        ("sqlite", 2, None, "--api-servers 2 --store etcd"),
        ("sqlite", None, on("etcd", 1), "was made with --store etcd, .*`bridgehead down --delete` removes it"),
        ("etcd", None, on("sqlite", 1), "was made with --store sqlite"),
        (None, 1, on("etcd", 3), "was made with --api-servers 3 --store etcd"),
        (None, 3, on("sqlite", 1), "was made with --api-servers 1 --store sqlite"),
    ],
)
def test_another_store_is_refused_in_one_line(programs, store, servers, before, message):
    with pytest.raises(LabError, match=message) as caught:
        choose_store(store, servers, before)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("store", "servers", "before", "chosen"),
    [
        ("etcd", 3, on("sqlite", 1), ("etcd", 3)),
        ("etcd", None, on("sqlite", 1), ("etcd", 1)),
        ("sqlite", None, on("etcd", 3), ("sqlite", 1)),
        (None, 1, on("etcd", 3), ("etcd", 1)),
        (None, None, on("etcd", 3), ("etcd", 3)),
    ],
)
def test_a_restored_lab_may_have_another_store(programs, store, servers, before, chosen):
    assert choose_store(store, servers, before, is_restored=True) == chosen


@pytest.mark.parametrize(("store", "before"), [("etcd", None), (None, on("etcd", 1))])
def test_a_missing_etcd_is_named_with_its_package(programs, store, before):
    programs.clear()
    with pytest.raises(Unsupported, match=r"`etcd` is missing: install it \(Debian: apt-get install etcd-server\)"):
        choose_store(store, None, before)


def test_other_stores_need_no_etcd(programs):
    programs.clear()
    assert choose_store(None, None, None) == ("sqlite", 1)
