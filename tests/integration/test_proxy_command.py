"""`bridgehead proxy` as a program: what it says when it cannot work, and --cleanup; in namespaces of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: a
contexts: [{name: a, context: {cluster: a}}]
clusters: [{name: a, cluster: {server: "http://127.0.0.1:1"}}]
"""
PROXY = (sys.executable, "-c", "from bridgehead.cli import main; main()", "proxy")


@pytest.fixture
def kubeconfig(tmp_path: Path) -> str:
    path = tmp_path / "kubeconfig"
    path.write_text(KUBECONFIG)
    return str(path)


def run_in_namespace(*command: str, root: bool = True) -> subprocess.CompletedProcess[str]:
    source = Path(__file__).resolve().parents[2] / "src"
    environment = {k: v for k, v in os.environ.items() if not k.startswith("KUBERNETES_")}
    return subprocess.run(
        ["unshare", "--user", "--net", *(["--map-root-user"] if root else []), *command],
        capture_output=True,
        text=True,
        timeout=30,
        env=environment | {"PYTHONPATH": str(source)},
    )


def test_without_the_right_to_change_the_network_it_says_so_and_ends(kubeconfig: str) -> None:
    result = run_in_namespace(*PROXY, "--kubeconfig", kubeconfig, "--node-name", "node1", root=False)

    assert result.returncode == 1
    assert result.stderr.splitlines() == [
        "bridgehead proxy: may not change this network namespace's nftables: CAP_NET_ADMIN is needed"
    ]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((), "no kubeconfig given, and not in a pod"),
        (("--kubeconfig", "/nonexistent"), "/nonexistent"),
        (("--proxy-mode", "ipvs"), "mode: 'ipvs' is not there yet; iptables and nftables are"),
        (("--cluster-cidr", "10.0.0.0"), "--cluster-cidr: '10.0.0.0' is not a range"),
        (("--config", "/nonexistent"), "/nonexistent: No such file or directory"),
    ],
)
def test_what_it_cannot_do_without_is_one_line(arguments: tuple[str, ...], text: str) -> None:
    result = run_in_namespace(*PROXY, *arguments)

    assert result.returncode == 1
    (line,) = result.stderr.splitlines()
    assert line.startswith("bridgehead proxy: ")
    assert text in line


def test_cleanup_takes_our_tables_and_no_others() -> None:
    script = (
        'nft add table ip bridgehead; nft add table ip6 bridgehead; nft add table ip other; "$@" && nft list tables'
    )

    result = run_in_namespace("sh", "-c", script, "sh", *PROXY, "--cleanup")

    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == ["table", "ip", "other"]
