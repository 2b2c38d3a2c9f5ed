"""The networks of a machine, which a lab's ranges avoid, from the kernel; and its loopback, which a lab needs."""

from __future__ import annotations

import ipaddress
import subprocess

import pytest

from bridgehead.lab.errors import Unsupported
from bridgehead.lab.machine_networks import read_networks
from bridgehead.lab.preflight import check_loopback
from bridgehead.lab.range_choice import choose_ranges

from .namespaced import in_namespace

pytestmark = [pytest.mark.integration, pytest.mark.needs("ip")]


def ip(arguments: str) -> None:
    subprocess.run(["ip", *arguments.split()], check=True, capture_output=True)


@in_namespace
def test_addresses_and_routes_are_networks_of_the_machine() -> None:
    ip("link add lan type veth peer name other")
    ip("link set lan up")
    ip("link set other up")
    ip("address add 10.0.0.7/24 dev lan")
    ip("address add fd00:10::7/64 dev lan nodad")
    ip("route add 10.96.0.0/16 via 10.0.0.1")
    for everywhere in ("default", "0.0.0.0/1", "128.0.0.0/1"):  # the halves are those of a VPN
        ip(f"route add {everywhere} via 10.0.0.1")
    found = {str(each.network): each.text for each in read_networks()}
    assert found["10.96.0.0/16"] == "this machine has a route to 10.96.0.0/16 (lan)"
    assert {"10.0.0.0/24", "fd00:10::/64"} <= set(found)
    assert not any(ipaddress.ip_network(each).prefixlen <= 1 for each in found)
    ranges, notes = choose_ranges({}, "dual", None, read_networks())
    assert [each.fabric for each in ranges] == ["172.30.0.0/24", "fd00:11::/64"]
    assert ranges[0].services == "172.29.0.0/16"
    assert "this machine has 10.0.0.7/24 at lan, so the lab has 172.30.0.0/24 instead of 10.0.0.0/24." in notes


@in_namespace
def test_a_machine_without_loopback_is_named() -> None:
    ip("link set lo down")
    with pytest.raises(Unsupported, match="loopback is down: as root, `ip link set lo up`"):
        check_loopback()
    ip("link set lo up")
    check_loopback()
