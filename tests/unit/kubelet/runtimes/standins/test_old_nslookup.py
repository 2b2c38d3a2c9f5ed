"""nslookup of old versions of BusyBox: its lines, and where it finds the DNS server."""

from __future__ import annotations

import pytest

from bridgehead.kubelet.runtimes.images.host_tools import HostTools
from bridgehead.kubelet.runtimes.service.container_plan import plan_tools
from bridgehead.kubelet.runtimes.standins.busybox.old_nslookup import Address, find_server, format_host, run
from bridgehead.kubelet.runtimes.standins.standin import BUSYBOX_TOOLS, Launch
from bridgehead.kubelet.runtimes.standins.table import STAND_INS


def test_a_host_has_a_line_for_each_address_with_its_name() -> None:
    found = [Address("10.244.1.7", "web-0.nginx.default.svc.cluster.local"), Address("fd00::7")]
    assert format_host("Name:", "web-0.nginx", found) == (
        "Name:      web-0.nginx\nAddress 1: 10.244.1.7 web-0.nginx.default.svc.cluster.local\nAddress 2: fd00::7\n"
    )
    assert format_host("Server:", "10.96.0.10", [Address("10.96.0.10")]) == (
        "Server:    10.96.0.10\nAddress 1: 10.96.0.10\n"
    )


@pytest.mark.parametrize(
    ("configuration", "server"),
    [
        ("search a b\nnameserver 10.96.0.10\nnameserver 10.96.0.11\noptions ndots:5\n", "10.96.0.10"),
        ("# nameserver 1.2.3.4\nnameserver\t fd00::a # the first\n", "fd00::a"),
        ("nameserver\n", "127.0.0.1"),
        ("", "127.0.0.1"),
    ],
)
def test_the_server_is_the_first_of_resolv_conf(configuration: str, server: str) -> None:
    assert find_server(configuration) == server


@pytest.mark.parametrize("arguments", [(), ("-type=srv", "x"), ("a", "b", "c")])
def test_other_arguments_print_the_usage(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(Launch(argv=("nslookup", *arguments), tag="1.28", hostname="p")) == 1
    assert capsys.readouterr().err.startswith("Usage: nslookup [HOST] [SERVER]\n")


@pytest.mark.parametrize("name", ["old-busybox", "old-alpine", "old-cirros", "busybox", "alpine", "cirros", "curl"])
def test_built_in_programs_come_before_those_of_busybox(name: str) -> None:
    stand_in = next(each for each in STAND_INS if each.name == name)
    tools = HostTools(busybox="/run/tools/busybox")
    assert "nslookup" in stand_in.programs
    assert plan_tools(stand_in, tools, "/bin")[1] == f"/usr/local/sbin:{BUSYBOX_TOOLS}:/bin"
