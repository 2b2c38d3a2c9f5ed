"""The chart's RBAC objects of the balancer give the rights that the lab's have, and no more than needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from bridgehead.balancer.admission import registration
from bridgehead.balancer.configuration import legacy_config_map
from bridgehead.balancer.configuration.pools import FALLBACK_ANNOTATION
from bridgehead.balancer.definitions.install import FILES, load_definitions
from bridgehead.balancer.heartbeat_key import LEASE_NAME, SECRET_NAME
from bridgehead.balancer.layer2 import exclusions
from bridgehead.objects.metallb import IP_ADDRESS_POOLS, L2_ADVERTISEMENTS
from tests.chart import objects

LAB = Path(__file__).parents[3] / "src/bridgehead/lab/manifests/balancer-rbac.yaml"
ROLES = ("ClusterRole", "Role")
LAB_NAMES = {"controller": "bridgehead:balancer", "speaker": "bridgehead:speaker"}


@pytest.mark.parametrize("part", LAB_NAMES)
def test_the_lab_gives_the_same_rights(part: str) -> None:
    def rules(found: list[dict[str, Any]], name: str) -> dict[tuple[str, str], Any]:
        return {
            (obj["kind"], obj["metadata"].get("namespace", "")): obj["rules"]
            for obj in found
            if obj["kind"] in ROLES and obj["metadata"]["name"] == name
        }

    lab = list(yaml.safe_load_all(LAB.read_text("utf-8")))
    chart = rules(objects(part), f"bridgehead-{part}")
    assert chart == rules(lab, LAB_NAMES[part])
    assert len(chart) == {"controller": 2, "speaker": 3}[part]


def test_the_definitions_are_those_that_the_controller_installs() -> None:
    wanted = {obj["metadata"]["name"]: obj["spec"] for file in FILES for obj in load_definitions(file)}
    found = objects("definitions", kinds=("CustomResourceDefinition",))
    assert {obj["metadata"]["name"]: obj["spec"] for obj in found} == wanted


def test_names_in_rules_are_those_of_the_code() -> None:
    named = {
        (resource, name)
        for obj in objects("controller", "speaker", kinds=ROLES)
        for rule in obj["rules"]
        for resource in rule.get("resources", ())
        for name in rule.get("resourceNames", ())
    }
    definitions = {name for names in FILES.values() for name in names}
    assert named == {
        ("configmaps", legacy_config_map.NAME),
        ("configmaps", exclusions.CONFIG_MAP_NAME),
        ("endpointslices", registration.NAME),
        ("leases", LEASE_NAME),
        ("secrets", SECRET_NAME),
        *(("customresourcedefinitions", name) for name in definitions),
        *(("validatingwebhookconfigurations", name) for name in registration.ADOPTED_CONFIGURATIONS),
        ("validatingwebhookconfigurations", registration.NAME),
    }


def test_nobody_may_change_what_people_configure() -> None:
    """A machine of which somebody takes hold has a speaker's token, with which no pool or peer must change."""
    written = {
        role["metadata"]["name"]: {
            resource
            for rule in role["rules"]
            if {"metallb.io", "network.kubesphere.io"} & set(rule.get("apiGroups", ()))
            and set(rule["verbs"]) - {"get", "list", "watch"}
            for resource in rule["resources"]
        }
        for role in objects("controller", "speaker", kinds=("ClusterRole",))
    }
    assert written == {
        "bridgehead-controller": {
            "configurationstates",
            "configurationstates/status",
            "eips",  # its finalizer
            "eips/status",
            "ipaddresspools/status",
        },
        "bridgehead-metrics-reader": set(),
        "bridgehead-speaker": {
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


def test_only_a_lab_lets_its_balancer_create_pools() -> None:
    """The lab's own pool is restored after it was lost with its definition (`controller/fallback_pools.py`)."""
    text = LAB.with_name("pool.yaml").read_text("utf-8").replace("$balancer_ranges", "10.0.0.10-10.0.0.50")
    objects = {obj["kind"]: obj for obj in yaml.safe_load_all(text)}
    restored = {kind.plural for kind in (IP_ADDRESS_POOLS, L2_ADVERTISEMENTS) if kind.name in objects}
    assert objects["ClusterRole"]["rules"] == [
        {"apiGroups": ["metallb.io"], "resources": sorted(restored), "verbs": ["create"]}
    ]
    binding = objects["ClusterRoleBinding"]
    assert binding["roleRef"]["name"] == objects["ClusterRole"]["metadata"]["name"]
    assert [subject["name"] for subject in binding["subjects"]] == ["bridgehead-balancer"]
    assert objects["IPAddressPool"]["metadata"]["annotations"] == {FALLBACK_ANNOTATION: "true"}
    assert objects["L2Advertisement"]["spec"]["ipAddressPools"] == [objects["IPAddressPool"]["metadata"]["name"]]
