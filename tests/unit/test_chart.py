"""The chart: security of its pods, and its values with their schema. Its objects are those of the kustomize bases."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from bridgehead.apiserver.admission.podsecurity.evaluation import describe, evaluate
from bridgehead.apiserver.admission.podsecurity.levels import BASELINE, LATEST, RESTRICTED, LevelVersion
from tests.chart import CHART, WORKLOADS, objects

PARTS = ("proxy", "dns", "controller", "speaker")


def workload(part: str) -> dict[str, Any]:
    (found,) = (obj for obj in objects(part, kinds=WORKLOADS) if obj["metadata"]["name"] == f"bridgehead-{part}")
    return found


def pod(part: str) -> dict[str, Any]:
    return workload(part)["spec"]["template"]


@pytest.mark.parametrize("part", ["dns", "controller"])
def test_pods_without_the_nodes_network_satisfy_the_restricted_level(part: str) -> None:
    template = pod(part)
    assert describe(evaluate(LevelVersion(RESTRICTED, LATEST), template["metadata"], template["spec"])) == ""


@pytest.mark.parametrize(
    ("part", "names"),
    [
        (
            "proxy",
            {
                "host namespaces",
                "hostPath volumes",
                "non-default capabilities",
                "privileged",
                "probe or lifecycle host",
            },
        ),
        ("speaker", {"host namespaces", "hostPath volumes", "non-default capabilities", "probe or lifecycle host"}),
    ],
)
def test_others_violate_the_baseline_only_by_what_they_need(part: str, names: set[str]) -> None:
    template = pod(part)
    found = {
        violation.reason
        for violation in evaluate(LevelVersion(BASELINE, LATEST), template["metadata"], template["spec"])
    }
    assert found == names


@pytest.mark.parametrize("part", PARTS)
def test_containers_have_few_rights(part: str) -> None:
    added = {"proxy": ["NET_ADMIN", "NET_RAW"], "speaker": ["NET_ADMIN", "NET_RAW", "NET_BIND_SERVICE"]}
    spec = pod(part)["spec"]
    (container,) = spec["containers"]
    security = container["securityContext"]
    assert security["readOnlyRootFilesystem"] is True
    assert security["allowPrivilegeEscalation"] is False
    assert security["capabilities"]["drop"] == ["ALL"]
    assert security["capabilities"].get("add", []) == added.get(part, [])
    profiles = [owner.get("seccompProfile") for owner in (security, spec.get("securityContext", {}))]
    assert {"type": "RuntimeDefault"} in profiles


def test_no_part_is_on_unless_asked() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
    assert not any(values[part]["enabled"] for part in PARTS)


def test_the_proxy_waits_until_kube_proxy_has_left_a_node() -> None:
    spec = pod("proxy")["spec"]
    assert spec["nodeSelector"] == {"kubernetes.io/os": "linux", "bridgehead.io/proxy": "true"}
    (term,) = spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["labelSelector"] == {"matchLabels": {"k8s-app": "kube-proxy"}}
    assert "k8s-app" not in workload("proxy")["spec"]["selector"]["matchLabels"]
    assert pod("proxy")["metadata"]["labels"]["k8s-app"] == "bridgehead-proxy"


def test_rules_are_removed_when_kube_proxy_has_returned() -> None:
    (found,) = (obj for obj in objects("proxy") if obj["metadata"]["name"] == "bridgehead-proxy-cleanup")
    template = found["spec"]["template"]["spec"]
    (term,) = template["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["labelSelector"]["matchLabels"]["app.kubernetes.io/component"] == "proxy"
    (removal,) = template["initContainers"]
    assert removal["args"] == ["proxy", "--cleanup-leftovers", "--metrics-bind-address=127.0.0.1:10249"]


def test_the_walk_through_has_the_commands_of_the_notes() -> None:
    notes = (CHART / "templates/NOTES.txt").read_text("utf-8")
    commands = [line.strip() for line in notes.splitlines() if line.startswith("    kubectl ") and "{{" not in line]
    page = (CHART.parents[1] / "docs/real-cluster.md").read_text("utf-8")
    assert [command for command in commands if f"    $ {command}" not in page] == []
    assert any("patch daemonset kube-proxy" in command for command in commands)


# --- Values ---------------------------------------------------------------------------------------------------------


def test_the_schema_knows_every_value() -> None:
    """Otherwise a value of values.yaml could not be set, or a misspelled one would have no effect."""
    values = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
    schema = json.loads((CHART / "values.schema.json").read_text("utf-8"))
    assert list(_unknown(schema, schema, values)) == []


def _unknown(schema: dict[str, Any], node: dict[str, Any], value: Any, path: str = "") -> Iterator[str]:
    """Yield the paths of maps without fields in the schema, and of fields that it lacks."""
    for reference in (one["$ref"] for one in node.get("allOf", [node]) if "$ref" in one):
        node = schema["definitions"][reference.rpartition("/")[2]]
    if not isinstance(value, dict) or "properties" not in node:
        return  # a value, or a map of the user's: labels, annotations, an affinity
    if node.get("additionalProperties") is not False and path != ".proxy.config":  # KubeProxyConfiguration has more
        yield path
    for name, field in value.items():
        if name in node["properties"]:
            yield from _unknown(schema, node["properties"][name], field, f"{path}.{name}")
        else:
            yield f"{path}.{name}"
