"""`bridgehead kubelet` as a process, before it has a runtime to work with."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.kubeconfigs import write_kubeconfig

pytestmark = pytest.mark.integration


def test_the_kubelet_logs_missing_prerequisites_and_ends_at_sigterm(tmp_path: Path) -> None:
    write_kubeconfig(tmp_path / "kubeconfig")
    options = {
        "--node-name": "node1",
        "--kubeconfig": tmp_path / "kubeconfig",
        "--runtime-socket": tmp_path / "runtime.sock",
        "--root-dir": tmp_path / "root",
        "--pod-cidr": "10.244.1.0/24",
        "--node-ip": "10.0.0.201",
    }
    argv = [sys.executable, "-c", "from bridgehead.cli import main; main()", "kubelet"]
    argv += [f"{name}={value}" for name, value in options.items()]
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as kubelet:
        try:
            assert kubelet.stderr is not None
            assert f"waiting for the runtime at {tmp_path}/runtime.sock" in kubelet.stderr.readline()
            kubelet.terminate()
            assert kubelet.stderr.read() == ""
        except BaseException:
            kubelet.kill()
            raise
    assert kubelet.returncode == 0
