"""The RBAC objects for real clusters give the rights that the lab's have."""

from __future__ import annotations

from pathlib import Path

import yaml

ROOT = Path(__file__).parents[3]
LAB = ROOT / "src/bridgehead/lab/manifests/balancer.yaml"
REAL = ROOT / "examples/real-cluster/balancer-rbac.yaml"
WORKLOADS = ("Deployment", "DaemonSet")


def test_the_example_has_the_labs_rights() -> None:
    lab = LAB.read_text("utf-8").replace("namespace: kube-system", "namespace: metallb-system")
    wanted = [obj for obj in yaml.safe_load_all(lab) if obj["kind"] not in WORKLOADS]
    assert list(yaml.safe_load_all(REAL.read_text("utf-8"))) == wanted
