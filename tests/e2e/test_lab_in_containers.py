"""A lab with the rights that root has in a container; docs/where-it-runs.md lists engines with which it was tried."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest

from bridgehead.lab import state_directories
from bridgehead.lab.plan import LabFiles

from .conftest import Lab, Namespace, curl, eventually, run

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="limits are taken from root")

# Root as engines of containers have it by default; and with CAP_SYS_ADMIN, but with parts of /proc and /sys hidden.
LIMITS = {"without-sys-admin": ["capabilities"], "hidden-proc": ["masks"]}

PODS = """
apiVersion: v1
kind: Pod
metadata: {name: users}
spec:
  containers:
  - name: user
    image: busybox
    command: [sh, -c, "id -u; sleep 3600"]
    securityContext: {runAsUser: 1000}
  - name: privileged
    image: busybox
    command: [sh, -c, "ls /sys/class/net; sleep 3600"]
    securityContext: {privileged: true}
"""


@pytest.fixture(params=LIMITS, ids=list(LIMITS))
def confined(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Lab, list[str]]]:
    lab = Lab(f"confined-{request.param}", tmp_path_factory.mktemp("confined") / "lab")
    yield lab, LIMITS[request.param]
    lab.stop("--delete")


def test_a_lab_runs_with_the_rights_of_a_container(confined: tuple[Lab, list[str]]) -> None:
    lab, limits = confined

    def command(verb: str, *options: object):
        own = [sys.executable, "-m", "tests.integration.confined", *limits, "--"]
        return run(*own, *lab.argv(verb, *options))

    up = command("up", "--wait", "--nodes=1", "--no-balancer", "--offline")
    assert up.returncode == 0, up.stderr
    ns = Namespace(lab, "default")
    ns.apply(PODS)
    ns.ready("users")
    assert ns.kubectl("logs", "users", "-c", "user") == "1000\n"
    eventually(lambda: "eth0" in ns.kubectl("logs", "users", "-c", "privileged"))
    assert lab.kubectl("create", "deployment", "web", "--image=nginx").returncode == 0
    assert lab.kubectl("expose", "deployment", "web", "--port=80").returncode == 0
    ns.rolled_out("deployment/web")
    ns.programmed("web")
    assert "Welcome to nginx" in curl(lab, f"http://{ns.cluster_ip('web')}/").stdout
    inside = command("exec", "--node=node1", "--", "nft", "list", "tables")
    assert "bridgehead" in inside.stdout, inside.stderr
    lab.disconnect()
    down = command("down", "--delete")
    assert down.returncode == 0, down.stderr
    assert not lab.state_dir.exists()
    assert not state_directories.is_running(LabFiles(lab.state_dir))
