"""Package names of missing commands."""

from __future__ import annotations

import re
from pathlib import Path

from bridgehead.lab.packages import how_to_install

SCRIPT = Path(__file__).parents[3] / "scripts" / "system-packages"


def test_known_commands_have_a_package():
    assert how_to_install("dig") == "install it (Debian: apt-get install bind9-dnsutils)"
    assert how_to_install("frobnicate") == ""


def test_the_installation_script_has_the_same_packages():
    for commands, package in re.findall(r"^\s+([a-z0-9 |.-]+)\) package=([a-z0-9-]+) ;;", SCRIPT.read_text(), re.M):
        for command in commands.split(" | "):
            assert how_to_install(command) in ("", f"install it (Debian: apt-get install {package})")
