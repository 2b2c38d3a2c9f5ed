"""Links, routes and rules over rtnetlink, against this machine's kernel, in namespaces of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytestmark = [pytest.mark.integration, pytest.mark.needs("ip")]

SOURCE = Path(__file__).resolve().parents[2] / "src"
HEADER = """
import json, os, socket, subprocess
from bridgehead.network.links import Links, write_sysctl
def ip(arguments):
    command = f"ip -json {arguments}".split()
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout or "[]")
"""


def in_namespace(program: str) -> None:
    """Run a program in namespaces of its own, which must succeed."""
    result = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--net", sys.executable, "-c", HEADER + textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=240,
        env=os.environ | {"PYTHONPATH": str(SOURCE)},
    )
    assert result.returncode == 0, result.stderr


def test_creating_a_bridge_twice_leaves_it_up_with_its_addresses() -> None:
    in_namespace("""
        with Links() as links:
            for _ in range(2):
                links.add_bridge("fabric")
                links.add_address("fabric", "10.0.0.1/24")
            (link,) = ip("-details link show fabric")
            assert "UP" in link["flags"] and link["mtu"] == 1500, link
            assert link["linkinfo"]["info_kind"] == "bridge" and link["linkinfo"]["info_data"]["forward_delay"] == 0
            (link,) = ip("address show fabric")
            (address,) = [found for found in link["addr_info"] if found["family"] == "inet"]
            assert (address["local"], address["prefixlen"]) == ("10.0.0.1", 24)
            assert links.index("fabric") == socket.if_nametoindex("fabric") and links.index("absent") is None
    """)


def test_an_ipv6_address_is_usable_immediately() -> None:
    in_namespace("""
        if os.path.exists("/proc/sys/net/ipv6"):
            write_sysctl("net/ipv6/conf/all/disable_ipv6", 0)
            with Links() as links:
                links.add_bridge("fabric")
                links.add_address("fabric", "fd00:10::1/64")
                (link,) = ip("-6 address show fabric")
                (address,) = [found for found in link["addr_info"] if found["local"] == "fd00:10::1"]
                assert address["prefixlen"] == 64 and not address.get("tentative"), address
                links.add_route("fd00:10:244:1::/64", via="fd00:10::201")
                links.add_route("default", via="fd00:10::202")
                routes = {route["dst"]: route.get("gateway") for route in ip("-6 route")}
                assert routes["fd00:10:244:1::/64"] == "fd00:10::201" and routes["default"] == "fd00:10::202"
    """)


def test_a_veth_pair_has_one_end_in_another_namespace() -> None:
    in_namespace("""
        holder = subprocess.Popen(["unshare", "--net", "cat"], stdin=subprocess.PIPE)
        own = os.readlink("/proc/self/ns/net")
        while os.readlink(f"/proc/{holder.pid}/ns/net") == own:
            pass
        other = os.open(f"/proc/{holder.pid}/ns/net", os.O_RDONLY)
        with Links() as links:
            links.add_bridge("fabric")
            links.add_veth("node1", peer="eth0", peer_namespace=other, mtu=1400, bridge="fabric")
            (link,) = ip("link show node1")
            assert link["master"] == "fabric" and "UP" in link["flags"] and link["mtu"] == 1400, link
            assert links.index("eth0") is None
            try:
                links.add_veth("node2", peer="eth0", peer_namespace=other, bridge="absent")
            except OSError as error:
                assert "absent" in str(error)
            else:
                raise AssertionError
        command = ["nsenter", f"--net=/proc/{holder.pid}/ns/net", "ip", "-json", "link", "show", "eth0"]
        (link,) = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        assert "UP" not in link["flags"] and link["mtu"] == 1400, link
        holder.communicate()
    """)


def test_routes_are_replaced_and_forwarding_is_refused() -> None:
    in_namespace("""
        with Links() as links:
            links.add_bridge("fabric")
            links.add_address("fabric", "10.0.0.1/24")
            for gateway in ("10.0.0.201", "10.0.0.202"):
                links.add_route("10.244.1.0/24", via=gateway)
                links.add_route("default", via=gateway)
            routes = {route["dst"]: route.get("gateway") for route in ip("route")}
            assert routes["10.244.1.0/24"] == routes["default"] == "10.0.0.202", routes
            for _ in range(2):
                links.refuse_forwarding("fabric")
            (rule,) = [rule for rule in ip("rule") if rule["priority"] == 100]
            assert rule["iif"] == "fabric" and rule["action"] == "unreachable", rule
            try:
                links.add_route("10.244.2.0/24", via="192.0.2.1")
            except OSError as error:
                assert "10.244.2.0/24" in str(error), error
            else:
                raise AssertionError("a gateway that no link leads to")
    """)


def test_sockets_that_take_connections_and_datagrams_are_found() -> None:
    in_namespace("""
        from bridgehead.network.listening_ports import Listener, listeners
        ip("link set lo up")
        assert listeners() == frozenset()
        tcp, udp = socket.create_server(("127.0.0.1", 22)), socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        udp.bind(("::", 53))
        client = socket.create_connection(("127.0.0.1", 22), source_address=("127.0.0.1", 2200))
        ephemeral = socket.create_server(("127.0.0.1", 0))
        assert listeners() == {Listener("tcp", "127.0.0.1", 22), Listener("udp", "::", 53)}, listeners()
    """)
