"""The RBAC objects for real clusters give the rights that the lab's have, and no more than needed."""

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


def test_nobody_may_change_what_people_configure() -> None:
    """A machine of which somebody takes hold has a speaker's token, with which no pool or peer must change."""
    roles = {
        obj["metadata"]["name"]: obj
        for obj in yaml.safe_load_all(REAL.read_text("utf-8"))
        if obj["kind"] == "ClusterRole"
    }
    written = {
        name: {
            resource
            for rule in role["rules"]
            if {"metallb.io", "network.kubesphere.io"} & set(rule["apiGroups"])
            and set(rule["verbs"]) - {"get", "list", "watch"}
            for resource in rule["resources"]
        }
        for name, role in roles.items()
    }
    assert written == {
        "bridgehead:balancer": {
            "configurationstates",
            "configurationstates/status",
            "eips",  # its finalizer
            "eips/status",
            "ipaddresspools/status",
        },
        "bridgehead:speaker": {
            "bgpconfs/status",
            "bgppeers/status",
            "configurationstates",
            "configurationstates/status",
            "servicebgpstatuses",
            "servicebgpstatuses/status",
            "servicel2statuses",
            "servicel2statuses/status",
        },
    }
