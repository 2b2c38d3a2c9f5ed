"""The requirements of a lab, checked on this machine and with parts of it hidden."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.integration, pytest.mark.needs("nft", "iptables-restore")]

EXAMINE = """
import json, sys
from pathlib import Path
from bridgehead.lab import preflight
from bridgehead.lab.machine_checks import examine_machine

hidden = sys.argv[2:]
find = preflight.find_system_program
preflight.find_system_program = lambda name: None if name in hidden else find(name)
print(json.dumps([each._asdict() for each in examine_machine(Path(sys.argv[1]))]))
"""


def examine(state: Path, *hidden: str) -> dict[str, dict[str, Any]]:
    # In a process of its own: the checks fork, and a test's process may have threads.
    done = subprocess.run(
        [sys.executable, "-c", EXAMINE, str(state), *hidden], capture_output=True, text=True, timeout=100, check=True
    )
    return {each["name"]: each for each in json.loads(done.stdout)}


def test_this_machine_has_what_a_lab_needs(tmp_path: Path) -> None:
    found = examine(tmp_path / "new" / "lab")
    assert [name for name, each in found.items() if each["is_needed"] and each["lack"]] == []
    assert not (tmp_path / "new").exists()


def test_missing_programs_are_named_with_their_remedy(tmp_path: Path) -> None:
    found = examine(tmp_path, "nft", "iptables-restore", "curl")
    assert found["namespaces and nftables"]["lack"] == "the command `nft` is missing"
    assert found["namespaces and nftables"]["remedy"] == "install it (Debian: apt-get install nftables)"
    assert found["mode iptables"]["lack"] == "`iptables-restore` is missing"
    assert found["programs of stand-ins"]["lack"] == "missing: curl"


def test_a_directory_that_cannot_be_written() -> None:
    assert "/proc" in examine(Path("/proc/sys/lab"))["disk"]["lack"]
