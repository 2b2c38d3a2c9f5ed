"""The suite itself: signals of the programs that tests start, and missing programs."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests import tools
from tests.conftest import pytest_xdist_make_scheduler

ROOT = Path(__file__).parents[2]
MISSING = "no-such-command is missing (Debian: apt-get install no-such-command)"


@pytest.mark.parametrize("name", ["INT", "QUIT"])
def test_programs_started_by_tests_have_default_signal_handlers(name: str) -> None:
    """A script's background job ignores SIGINT and SIGQUIT."""
    program = f"import subprocess, tests.conftest; print(subprocess.run(['sh', '-c', 'kill -{name} $$']).returncode)"
    argv = ["sh", "-c", "trap '' INT QUIT; exec \"$@\"", "sh", sys.executable, "-c", program]
    result = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert int(result.stdout) == -signal.Signals[f"SIG{name}"], result.stderr


def test_files_with_guests_go_to_one_worker(pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each worker with such a file would boot a kernel of its own."""
    monkeypatch.setattr(pytestconfig.option, "dist", "loadfile")
    monkeypatch.setattr(pytestconfig.option, "tx", ["popen"])
    scheduler = pytest_xdist_make_scheduler(pytestconfig, None)
    ipvs, limits, dns = (f"tests/integration/test_{name}.py" for name in ("proxy_ipvs", "kubelet_limits", "dns"))
    scopes = [scheduler._split_scope(f"{file}::test_x[{i}]") for i, file in enumerate((ipvs, limits, dns, dns))]
    assert scopes[0] == scopes[1]
    assert scopes[1:] == [scopes[0], dns, dns]


def test_a_missing_program_is_a_skip_that_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BRIDGEHEAD_REQUIRE_TOOLS", raising=False)
    with pytest.raises(pytest.skip.Exception) as raised:
        tools.require("sh", "no-such-command")
    assert raised.value.msg == MISSING


def test_a_missing_program_is_a_failure_if_all_are_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRIDGEHEAD_REQUIRE_TOOLS", "1")
    with pytest.raises(pytest.fail.Exception, match="no-such-command is missing"):
        tools.require("no-such-command")


@pytest.mark.parametrize(
    ("command", "package"),
    [("dig", "bind9-dnsutils"), ("tc", "iproute2"), ("iptables-nft-restore", "iptables"), ("conntrack", "conntrack")],
)
def test_commands_have_packages(command: str, package: str) -> None:
    """The packages are those of scripts/system-packages."""
    assert tools.package_of(command) == package
