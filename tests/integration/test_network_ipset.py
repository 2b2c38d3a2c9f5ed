"""IP sets and addresses over netlink, against this machine's kernel, in namespaces of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytestmark = [pytest.mark.integration, pytest.mark.needs("ip", "ipset", "iptables")]

SOURCE = Path(__file__).resolve().parents[2] / "src"


def in_namespace(program: str) -> list[str]:
    """Run a program in namespaces of its own; the lines it printed."""
    header = (
        "import errno, select, subprocess\n"
        "from bridgehead.network.interface_addresses import Address, Addresses\n"
        "from bridgehead.network.ipset import IpSets, SetType\n"
        "def sh(line): return subprocess.run(line, shell=True, check=True, capture_output=True, text=True).stdout\n"
    )
    result = subprocess.run(
        ["unshare", "--user", "--map-root-user", "unshare", "--net", sys.executable, "-c",
         header + textwrap.dedent(program)],
        capture_output=True, text=True, timeout=240, env=os.environ | {"PYTHONPATH": str(SOURCE)},
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()


def test_elements_of_every_type_are_read_back_as_they_were_written() -> None:
    printed = in_namespace("""
        found = {
            SetType("hash:ip,port"): ["10.96.0.1,tcp:80", "10.96.0.1,udp:53", "10.96.0.1,sctp:80"],
            SetType("hash:ip,port", 6): ["fd00:96::1,tcp:80"],
            SetType("hash:ip,port,ip"): ["10.244.1.2,tcp:80,10.244.1.2"],
            SetType("hash:ip,port,net"): ["10.96.0.1,tcp:80,10.0.0.0/24", "10.96.0.1,tcp:80,192.0.2.1"],
            SetType("hash:ip,port,net", 6): ["fd00:96::1,tcp:80,fd00::/32"],
            SetType("hash:ip", 6): ["fd00:96::1"],
            SetType("bitmap:port"): ["30000", "30080"],
            SetType("hash:ip,port", 4, True): ["10.96.0.1,tcp:80 skbmark 0x5/0x3fff"],
        }
        with IpSets() as sets:
            for number, (kind, elements) in enumerate(found.items()):
                name = f"S{number}"
                sets.create(name, kind)
                for _ in range(2):  # again, they are there already
                    sets.add(name, elements)
                print(sets.elements(name) == set(elements), sets.headers()[name][:2] == (kind, len(elements)))
                listed = sh(f"ipset save {name}")
                print(all(f"add {name} {element}\\n" in listed for element in elements))
                sets.remove(name, elements)
                sets.remove(name, elements)
                print(sets.elements(name) == set())
            sets.destroy([*sets.headers(), "not-there"])
            print(sets.headers(), sets.elements("not-there"))
    """)

    assert set(printed[:-1]) == {"True True", "True"}
    assert printed[-1] == "{} set()"


def test_many_elements_are_sent_in_several_messages_and_a_mark_can_change() -> None:
    printed = in_namespace("""
        many = [f"10.{n >> 16}.{(n >> 8) & 255}.{n & 255},tcp:80" for n in range(5000)]
        with IpSets() as sets:
            sets.create("many", SetType("hash:ip,port"))
            sets.add("many", many)
            print(sets.elements("many") == set(many))
            sets.create("marked", SetType("hash:ip,port", 4, True))
            for mark in (1, 2):
                sets.add("marked", [f"10.96.0.1,tcp:80 skbmark {mark:#x}/0x3fff"])
            print(*sets.elements("marked"))
            sets.remove("marked", ["10.96.0.1,tcp:80 skbmark 0x1/0x3fff"])
            print(sets.elements("marked"))
    """)

    assert printed == ["True", "10.96.0.1,tcp:80 skbmark 0x2/0x3fff", "set()"]


def test_a_full_set_gets_another_limit_and_keeps_its_elements_and_rules() -> None:
    """kube-proxy's command succeeds for a set that exists, with its limit."""
    printed = in_namespace("""
        def create():
            line = "ipset create a hash:ip family inet hashsize 1024 maxelem 65536 -exist"
            print(subprocess.run(line, shell=True, capture_output=True).returncode)
        with IpSets() as sets:
            sets.create("a", SetType("hash:ip"), limit=2)
            create()
            sh("iptables -A OUTPUT -m set --match-set a dst")
            sets.add("a", ["10.0.0.1", "10.0.0.2"])
            try:
                sets.add("a", ["10.0.0.3"])
            except OSError as error:
                print(error.errno == errno.ENOSPC)
            sets.change_limit("a", 65536, "b")
            sets.add("a", ["10.0.0.3"])
            create()
            print({name: header.limit for name, header in sets.headers().items()}, *sorted(sets.elements("a")))
            try:
                sets.destroy(["a"])
            except OSError as error:
                print(error.errno == errno.EBUSY)
    """)

    assert printed == ["1", "True", "0", "{'a': 65536} 10.0.0.1 10.0.0.2 10.0.0.3", "True"]


def test_rejections_are_described() -> None:
    printed = in_namespace("""
        def tried(what):
            try:
                what()
            except OSError as error:
                print(error.errno == errno.EOPNOTSUPP, error.strerror)
        with IpSets() as sets:
            sets.create("a", SetType("hash:ip"))
            tried(lambda: sets.create("a", SetType("hash:ip")))
            tried(lambda: sets.create("b", SetType("hash:nonsense")))
            tried(lambda: sets.add("not-there", ["10.0.0.1"]))
    """)

    assert printed == [
        "False ipset: create set a (hash:ip): File exists",
        "True ipset: set type hash:nonsense: the kernel has no sets of this type",
        "False ipset: add to set not-there: No such file or directory",
    ]


def test_addresses_are_added_listed_and_monitored() -> None:
    printed = in_namespace("""
        with Addresses() as addresses:
            sh("ip link add v type veth peer w")
            link = addresses.link("v")
            mine = [Address("10.9.9.9", link), Address("fd00::9", link)]
            for _ in range(2):
                addresses.add(mine)
            # The kernel tells of one of IPv6 some time later, when it has taken it to be nobody else's, or then again.
            reported = addresses.changes()
            while not set(mine) <= set(reported) and select.select([addresses], [], [], 20)[0]:
                reported += addresses.changes()
            print(addresses.all() == mine, set(reported) == set(mine), reported.count(mine[0]))
            sh("ip address add 10.0.0.1/24 dev w")
            print(*(address for address, link in addresses.changes() if (address, link) not in mine))
            for _ in range(2):
                addresses.remove(mine)
            print(*(address for address, _ in addresses.all()))
            print(addresses.link("not-there"))
            addresses.remove_link("v")
            addresses.remove_link("v")
            print(addresses.link("v"))
    """)

    assert printed == ["True True 1", "10.0.0.1", "10.0.0.1", "0", "0"]


def test_each_of_many_address_changes_is_reported() -> None:
    printed = in_namespace("""
        with Addresses() as addresses:
            link = addresses.link("lo")
            mine = [Address(f"10.9.{number >> 8}.{number & 255}", link) for number in range(2_000)]
            for change in addresses.add, addresses.remove:
                change(mine)
                print(addresses.changes() == mine, addresses.changes())
    """)

    assert printed == ["True []", "True []"]
