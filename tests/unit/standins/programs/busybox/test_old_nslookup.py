"""nslookup of old versions of BusyBox: its lines, and where it finds the DNS server and the interpreter."""

from __future__ import annotations

import os
import sys

import pytest

from bridgehead.images.references import parse_reference
from bridgehead.kubelet.runtimes.image_resolver import find_in_stand_ins
from bridgehead.kubelet.runtimes.service.container_plan import plan_own_files, plan_tools
from bridgehead.standins.host_tools import HostTools
from bridgehead.standins.program_scripts import OWN_FILES, script
from bridgehead.standins.programs.busybox.old_nslookup import Address, find_server, format_host, run
from bridgehead.standins.standin import BUSYBOX_TOOLS, Launch
from bridgehead.standins.table import STAND_INS


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


@pytest.mark.parametrize(
    ("name", "has_built_in", "prefixes"),
    [
        ("nginx", True, [""]),
        ("admin-box", False, [""]),
        ("admin-box", True, ["", OWN_FILES]),
        ("netshoot", False, []),
        ("netshoot", True, [OWN_FILES]),
        ("busybox", False, [OWN_FILES]),
    ],
)
def test_images_of_tools_have_the_interpreter_out_of_sight(name: str, has_built_in: bool, prefixes: list[str]) -> None:
    reference = parse_reference({"admin-box": "ikubernetes/admin-box", "netshoot": "nicolaka/netshoot"}.get(name, name))
    assert reference is not None
    image = find_in_stand_ins(name, reference)
    assert image is not None
    assert plan_own_files(image, HostTools(has_built_in=has_built_in)) == prefixes


def test_a_script_finds_a_moved_interpreter() -> None:
    directory = os.path.dirname(os.path.realpath(sys.executable))
    first, *_ = script("busybox.old_nslookup.run", moved=[directory]).splitlines()
    assert first == f"#!{OWN_FILES}{os.path.realpath(sys.executable)} -IS"
    assert script("busybox.old_nslookup.run", moved=["/nowhere"]).startswith(
        f"#!{os.path.realpath(sys.executable)} -IS\n"
    )
