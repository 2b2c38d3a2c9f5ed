"""Stand-ins made of tools on a machine whose BusyBox is another build."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from bridgehead.kubelet.runtimes.images.host_tools import prepare_tools
from tests.e2e.wordpress.packages import Packages

pytestmark = [pytest.mark.integration, pytest.mark.needs("apt-get", "dpkg-deb")]


@pytest.fixture
def static_busybox(tmp_path: Path, pytestconfig: pytest.Config) -> Path:
    """A directory with the program of Debian's busybox-static, whose shell prefers its own applets."""
    [packages] = Packages(pytestconfig.cache.mkdir("busybox-static")).download(["busybox-static"])
    for package in packages:
        subprocess.run(["dpkg-deb", "--extract", str(package), str(tmp_path)], check=True)
    return next(path for path in tmp_path.glob("**/bin") if (path / "busybox").exists())


def test_a_shell_starts_the_programs_that_replace_applets(static_busybox: Path, tmp_path: Path) -> None:
    replacement = tmp_path / "replacements" / "nslookup"
    replacement.parent.mkdir()
    replacement.write_text('#!/bin/sh\necho "asked for $1"\n')
    replacement.chmod(0o755)

    def ask(shell: str) -> str:
        environment = {"PATH": f"{replacement.parent}:{static_busybox}"}
        argv = [shell, "-c", "nslookup -type=none; basename a/b"]
        return subprocess.run(argv, capture_output=True, text=True, env=environment, timeout=30).stdout

    (static_busybox / "sh").symlink_to("busybox")
    assert "asked for" not in ask(str(static_busybox / "sh")), "this build's shell follows PATH: the test shows nothing"
    tools = prepare_tools(str(tmp_path / "tools"), str(static_busybox))
    assert ask(f"{tools.busybox}/sh") == "asked for -type=none\nb\n"
