"""Programs that tests call. Tests whose program is missing are skipped; with BRIDGEHEAD_REQUIRE_TOOLS=1 they fail."""

from __future__ import annotations

import functools
import os
import re
import shutil
from pathlib import Path

import pytest

_SYSTEM_PACKAGES = Path(__file__).parents[1] / "scripts" / "system-packages"


def require(*commands: str, path: str | None = None) -> None:
    """Skip or fail the test that runs, if one of the commands is missing."""
    text = describe_missing(*commands, path=path)
    if text and is_strict():
        pytest.fail(text, pytrace=False)
    elif text:
        pytest.skip(text)


def is_strict() -> bool:
    """Return whether a missing program is a failure, as in `make test`, which installs all of them."""
    return os.environ.get("BRIDGEHEAD_REQUIRE_TOOLS") == "1"


def describe_missing(*commands: str, path: str | None = None) -> str:
    """Return which commands are missing and which Debian packages have them, or "" if all are installed."""
    return "; ".join(
        f"{command} is missing (Debian: apt-get install {package_of(command)})"
        for command in commands
        if shutil.which(command, path=path) is None
    )


def package_of(command: str) -> str:
    return "iptables" if command.startswith("iptables") else _packages().get(command, command)


@functools.cache
def _packages() -> dict[str, str]:
    """Command -> Debian package, where the names differ."""
    lines = re.findall(r"^ +([^*\n]+)\) package=(\S+) ;;$", _SYSTEM_PACKAGES.read_text("utf-8"), re.MULTILINE)
    return {command.strip(): package for commands, package in lines for command in commands.split("|")}
