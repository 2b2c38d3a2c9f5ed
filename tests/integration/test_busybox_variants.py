"""Stand-ins made of tools on a machine whose BusyBox is another build."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from deploy.image.debian import Packages

from bridgehead.standins.host_tools import prepare_tools

pytestmark = [pytest.mark.integration, pytest.mark.needs("apt-get", "dpkg-deb")]


@pytest.fixture
def static_busybox(tmp_path: Path, pytestconfig: pytest.Config) -> Path:
    """A directory with the program of Debian's busybox-static, whose shell prefers its own applets."""
    [packages] = Packages(pytestconfig.cache.mkdir("busybox-static")).download(["busybox-static"])
    for package in packages:
        subprocess.run(["dpkg-deb", "--extract", str(package), str(tmp_path)], check=True)
    return next(path for path in tmp_path.glob("**/bin") if (path / "busybox").exists())


def test_shells_and_other_applets_start_the_programs_that_replace_applets(static_busybox: Path, tmp_path: Path) -> None:
    replacement = tmp_path / "replacements" / "nslookup"
    replacement.parent.mkdir()
    replacement.write_text('#!/bin/sh\necho "asked for $1"\n')
    replacement.chmod(0o755)

    def ask(*argv: str) -> str:
        environment = {"PATH": f"{replacement.parent}:{static_busybox}"}
        return subprocess.run(argv, capture_output=True, text=True, env=environment, timeout=30).stdout

    shell = ("sh", "-c", "nslookup -type=none; timeout 9 nslookup -type=in; basename a/b")
    without_shell = ("timeout", "9", "nslookup", "-type=none")
    for command in (shell, without_shell):
        assert "asked for" not in ask(str(static_busybox / "busybox"), *command), "this build follows PATH"
    tools = prepare_tools(str(tmp_path / "tools"), str(static_busybox))
    assert ask(f"{tools.busybox}/{shell[0]}", *shell[1:]) == "asked for -type=none\nasked for -type=in\nb\n"
    assert ask(f"{tools.busybox}/{without_shell[0]}", *without_shell[1:]) == "asked for -type=none\n"
