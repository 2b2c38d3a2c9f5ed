"""Package names of missing commands."""

from __future__ import annotations

import re
from pathlib import Path

from bridgehead.lab.packages import POD_TOOLS, describe_missing_tools, how_to_install

SCRIPT = Path(__file__).parents[3] / "scripts" / "system-packages"


def test_known_commands_have_a_package():
    assert how_to_install("dig") == "install it (Debian: apt-get install bind9-dnsutils)"
    assert how_to_install("frobnicate") == ""


def test_missing_tools_of_pods_are_named_with_their_packages():
    assert describe_missing_tools([]) == ""
    assert "lacks dig, ip, and" in describe_missing_tools(["dig", "ip"])
    assert "apt-get install bind9-dnsutils iproute2" in describe_missing_tools(["dig", "ip"])
    assert all(how_to_install(tool) for tool in POD_TOOLS)


def test_the_installation_script_has_the_same_packages():
    for commands, package in re.findall(r"^\s+([a-z0-9 |.-]+)\) package=([a-z0-9-]+) ;;", SCRIPT.read_text(), re.M):
        for command in commands.split(" | "):
            assert how_to_install(command) in ("", f"install it (Debian: apt-get install {package})")
