"""`up` and `doctor --machine` under the limits of containers and of hardened machines, made by the kernel itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.integration,
    pytest.mark.needs("nft"),
    pytest.mark.skipif(os.geteuid() != 0, reason="limits are taken from root"),
]

BRIDGEHEAD = Path(sys.executable).with_name("bridgehead")
UNMASK = "--security-opt systempaths=unconfined"
NO_FILTER = "--security-opt seccomp=unconfined"


@pytest.fixture
def state() -> Iterator[Path]:
    """A directory that other users reach, too."""
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o777)
        yield Path(directory) / "lab"


def run_confined(*limits: str, command: list[str]) -> subprocess.CompletedProcess[str]:
    confined = [sys.executable, "-m", "tests.integration.confined", *limits, "--", str(BRIDGEHEAD), *command]
    return subprocess.run(confined, capture_output=True, text=True, timeout=100, stdin=subprocess.DEVNULL)


@pytest.mark.parametrize(
    ("limits", "lack", "remedy"),
    [
        (["sysctl=user.max_user_namespaces"], "the sysctl user.max_user_namespaces is 0", "user.max_user_namespaces="),
        (["sysctl=user.max_net_namespaces"], "the sysctl user.max_net_namespaces is 0", "user.max_net_namespaces="),
        (["chroot"], "this process is in a chroot", "pivot_root"),
        (["capabilities", "no-setfcap"], "root may not map the ids", "without `--cap-drop`"),
        (["capabilities", "masks"], "parts of /proc are hidden here (/proc/bus, /proc/sys", UNMASK),
        (["capabilities", "seccomp"], "a seccomp filter forbids a user namespace", f"`{NO_FILTER}` or"),
        (["capabilities", "seccomp", "masks"], "a seccomp filter forbids a user namespace", f"{NO_FILTER} {UNMASK}"),
        (["seccomp"], "a seccomp filter forbids a new root directory", f"`{NO_FILTER}` or"),
        (["user=4711", "capabilities", "seccomp"], "a seccomp filter forbids a user namespace", f"`{NO_FILTER}` or"),
        (["user=4711", "masks"], "parts of /proc are hidden here", UNMASK),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else None,
)
def test_the_limit_is_named_with_the_option_that_lifts_it(
    limits: list[str], lack: str, remedy: str, state: Path
) -> None:
    where = f"--state-dir={state}"
    up = run_confined(*limits, command=["up", "--wait", "--json", where])
    assert (up.returncode, up.stderr.count("\n")) == (3, 1), up.stderr
    message = json.loads(up.stdout)["error"]["message"]
    assert up.stderr == f"bridgehead: {message}\n"
    assert lack in message
    assert remedy in message
    assert not state.exists()

    doctor = run_confined(*limits, command=["doctor", "--machine", "-o", "json", where])
    found = {each["name"]: each for each in json.loads(doctor.stdout)["requirements"]}["namespaces and nftables"]
    assert (doctor.returncode, found["state"]) == (1, "missing")
    assert message == f"{found['lack']}: {found['remedy']}"
