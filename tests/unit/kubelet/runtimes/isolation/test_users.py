"""The user, groups and capabilities of a container."""

from __future__ import annotations

import pytest

from bridgehead.kubelet.runtimes.isolation.privileges import (
    CAPABILITIES,
    DEFAULT_CAPABILITIES,
    numbers_of,
    parse_available,
    plan_capabilities,
)
from bridgehead.kubelet.runtimes.isolation.users import Account, UnknownUser, find_account, shown
from bridgehead.kubelet.runtimes.runtime import RuntimeFailure, Security
from bridgehead.kubelet.runtimes.service.sandboxes import sysctl_path
from bridgehead.objects.core import LinuxContainerUser

PASSWD = "root:x:0:0:root:/root:/bin/sh\nweb:x:101:102:w:/srv/web:/bin/false\nbroken:x:y:z\n"
GROUP = "root:x:0:\nstaff:x:50:web,other\nweb:x:102:\nextra:x:60:web\n"


@pytest.mark.parametrize(
    ("security", "image_user", "account"),
    [
        (Security(), "", Account(user=0, group=0, home="/root")),
        (Security(), "web", Account(user=101, group=102, groups=(50, 60), home="/srv/web")),
        (Security(), "101", Account(user=101, group=102, groups=(50, 60), home="/srv/web")),
        (Security(), "web:staff", Account(user=101, group=102, groups=(50, 60), home="/srv/web")),
        (Security(), "4711:4294967295", Account(user=4711, group=0)),
        (Security(), "4711", Account(user=4711, group=0)),
        (Security(user=4711, group=4712), "web:staff", Account(user=4711, group=4712)),
        (Security(user=101), "root", Account(user=101, group=102, groups=(50, 60), home="/srv/web")),
        (Security(user=101, strict_groups=True), "", Account(user=101, group=102, home="/srv/web")),
        (Security(supplemental_groups=(7, 7, 8)), "", Account(user=0, group=0, groups=(7, 8), home="/root")),
    ],
)
def test_accounts_are_resolved(security: Security, image_user: str, account: Account) -> None:
    assert find_account(security, image_user, PASSWD, GROUP) == account


def test_the_shown_groups_begin_with_the_main_one() -> None:
    account = Account(user=101, group=102, groups=(50, 102, 60))
    assert shown(account) == LinuxContainerUser(uid=101, gid=102, supplemental_groups=(102, 50, 60))


@pytest.mark.parametrize("image_user", ["nobody", "broken"])
def test_unknown_users_are_refused(image_user: str) -> None:
    with pytest.raises(UnknownUser, match="unable to find"):
        find_account(Security(), image_user, PASSWD, GROUP)


@pytest.mark.parametrize("image_user", ["4294967295", "web", "2147483648"])
def test_ids_out_of_range_are_refused(image_user: str) -> None:
    """setresuid(2) takes the largest one for "leave it as it is"."""
    with pytest.raises(UnknownUser, match="must be in range 0-2147483647"):
        find_account(Security(), image_user, "web:x:4294967295:102:w:/:/bin/sh\n", "")


def test_an_image_without_accounts_runs_as_root_by_default() -> None:
    assert find_account(Security(), "", "", "") == Account(user=0, group=0)


@pytest.mark.parametrize(
    ("add", "drop", "expected"),
    [
        ((), (), DEFAULT_CAPABILITIES),
        (("NET_ADMIN", "CAP_SYS_TIME"), (), DEFAULT_CAPABILITIES | {"NET_ADMIN", "SYS_TIME"}),
        ((), ("ALL",), frozenset()),
        (("NET_ADMIN",), ("ALL",), {"NET_ADMIN"}),
        (("ALL",), ("CHOWN",), frozenset(CAPABILITIES) - {"CHOWN"}),
        (("CHOWN",), ("CHOWN",), DEFAULT_CAPABILITIES - {"CHOWN"}),
    ],
)
def test_capabilities_are_computed_from_additions_and_drops(
    add: tuple[str, ...], drop: tuple[str, ...], expected: frozenset[str]
) -> None:
    assert plan_capabilities(Security(add_capabilities=add, drop_capabilities=drop)) == expected


def test_the_capability_list_equals_the_runtimes() -> None:
    available = parse_available("Name:\tx\nCapInh:\t0\nCapPrm:\t0000000001000003\nCapEff:\tff\n")
    assert available == {"CHOWN", "DAC_OVERRIDE", "SYS_RESOURCE"}
    assert plan_capabilities(Security(privileged=True), available) == available
    assert plan_capabilities(Security(add_capabilities=("ALL",)), available) == available
    assert plan_capabilities(Security(), available) == DEFAULT_CAPABILITIES


def test_unknown_capabilities_are_refused() -> None:
    with pytest.raises(RuntimeFailure, match="CAP_FLY"):
        plan_capabilities(Security(drop_capabilities=("fly",)))
    assert plan_capabilities(Security(privileged=True, drop_capabilities=("ALL",))) == frozenset(CAPABILITIES)
    assert sum(1 << number for number in numbers_of(DEFAULT_CAPABILITIES)) == 0xA80425FB  # as containerd's show it


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("net.ipv4.ip_forward", "net/ipv4/ip_forward"),
        ("net.ipv4.conf.eth0/1.forwarding", "net/ipv4/conf/eth0.1/forwarding"),
        ("net/ipv4/conf/eth0.1/forwarding", "net/ipv4/conf/eth0.1/forwarding"),
    ],
)
def test_sysctl_names_are_converted_to_paths(name: str, path: str) -> None:
    assert sysctl_path(name) == path
