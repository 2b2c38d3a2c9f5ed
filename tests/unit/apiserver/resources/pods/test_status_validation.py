"""Writes of the status of a pod."""

from __future__ import annotations

from typing import Any

import pytest

from bridgehead.apiserver.resource import errors_of
from tests.unit.apiserver.resources.steps import Steps, from_yaml, texts

from .checks import new_steps, pod_with

SPEC = """
    restartPolicy: OnFailure
    nodeName: n
    resourceClaims: [{name: c, resourceClaimName: d}]
    initContainers: [{name: i, image: b}]
    containers:
    - name: a
      image: b
      resources: {claims: [{name: c, request: r}], limits: {example.com/gpu: 1}}
    - name: rules
      image: b
      restartPolicy: Never
      restartPolicyRules: [{action: Restart, exitCodes: {operator: NotIn, values: [1]}}]
"""
STOPS = "may not be transitioned to non-terminated state"
CLAIM = "extendedResourceClaimStatus"


@pytest.fixture
def pods() -> Steps:
    return new_steps()


@pytest.fixture
def stored(pods: Steps) -> dict[str, Any]:
    pod = pods.create(pod_with(from_yaml(SPEC)))
    pod["status"]["qosClass"] = "BestEffort"
    return pod


def refused(pods: Steps, stored: dict[str, Any], status: str, before: str = "") -> list[str]:
    stored["status"] |= from_yaml(before)
    return pods.update_refusal(stored, {**stored, "status": from_yaml(status)}, "status")


def ended(name: str, code: int, kind: str = "containerStatuses") -> str:
    return f"{kind}: [{{name: {name}, state: {{terminated: {{exitCode: {code}}}}}}}]"


CASES = [
    ("{phase: Running}", []),
    ("{conditions: [{type: Ready}, {type: a.b/c}, {type: a b, observedGeneration: -1}], observedGeneration: -2}", [
        "status.conditions[2].observedGeneration: Invalid value: -1: must be a non-negative integer",
        "status.conditions[2].Type: Invalid value: \"a b\": name part must consist of alphanumeric characters, '-', "
        "'_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or "
        "'123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
        "status.observedGeneration: Invalid value: -2: must be a non-negative integer"]),
    ("{nominatedNodeName: other}", [
        "status.nominatedNodeName: Forbidden: may not be set on pods that are already bound to a node"]),
    ("{qosClass: Guaranteed}", ['status.qosClass: Invalid value: "Guaranteed": field is immutable']),
    ("{resourceClaimStatuses: [{name: c, resourceClaimName: d}]}", []),
    ("{resourceClaimStatuses: [{name: x}, {name: c, resourceClaimName: d}, {name: c}]}", [
        'status.resourceClaimStatuses[0].name: Invalid value: "x": must match the name of an entry in '
        "`spec.resourceClaims`",
        'status.resourceClaimStatuses[2].name: Duplicate value: "c"']),
    (f"{{{CLAIM}: {{resourceClaimName: d, requestMappings: [{{containerName: a, resourceName: example.com/gpu, "
     "requestName: r}]}}", []),
    (f"{{{CLAIM}: {{}}}}", [
        f"status.{CLAIM}.requestMappings: Required value: at least one request mapping is required",
        f"status.{CLAIM}.resourceClaimName: Required value"]),
    (f"{{{CLAIM}: {{resourceClaimName: d, requestMappings: [{{containerName: x, requestName: r}}, "
     "{containerName: a, resourceName: z, requestName: r}, {containerName: a, resourceName: z, requestName: r}]}}", [
        f'status.{CLAIM}.requestMappings[0].containerName: Invalid value: "x": must match the name of an entry in '
        "spec.initContainers.name or spec.containers.name",
        *(f'status.{CLAIM}.requestMappings[{index}].resourceName: Invalid value: "z": must match the extended resource '
          "name of an entry in spec.initContainers.resources.requests or spec.containers.resources.requests"
          for index in (1, 2)),
        *(f'status.{CLAIM}.requestMappings[2].{key}: Duplicate value: "{value}"'
          for key, value in (("containerName", "a"), ("resourceName", "z"), ("requestName", "r")))]),
    ("{podIP: 10.0.0.1, podIPs: [{ip: 10.0.0.1}, {ip: 'fd00::1'}], hostIP: 10.0.0.2, hostIPs: [{ip: 10.0.0.2}]}", []),
    ("{podIPs: [{ip: x}], hostIPs: [{ip: 10.0.0.2}]}", [
        'status.podIPs[0]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)',
        'status.hostIPs[0].ip: Invalid value: "10.0.0.2": must be equal to `hostIP`']),
    ("{podIPs: [{ip: 10.0.0.1}, {ip: 10.0.0.2}]}", [
        'status.podIPs: Invalid value: [{"IP":"10.0.0.1"},{"IP":"10.0.0.2"}]: may specify no more than one IP for '
        "each IP family"]),
    ("{containerStatuses: [{name: a, user: {linux: {uid: -1, gid: 0, supplementalGroups: [-2]}}}, "
     "{name: rules, user: {}}]}", [
        f"status.containerStatuses[0].user.linux.{name}: Invalid value: {value}: must be between 0 and 2147483647, "
        "inclusive" for name, value in (("uid", -1), ("supplementalGroups[0]", -2))]),
    ("{containerStatuses: [{name: a, allocatedResourcesStatus: [{name: example.com/gpu, resources: "
     "[{resourceID: x, health: Healthy}]}, {name: 'claim:c/r'}]}]}", []),
    ("{containerStatuses: [{name: a, allocatedResourcesStatus: [{name: z}, {name: 'claim:z', resources: "
     "[{resourceID: x, health: Ill}, {resourceID: x, health: Unknown}]}]}]}", [
        'status.containerStatuses[0].allocatedResourcesStatus[0].name: Invalid value: "z": must match one of the '
        "container's resource requests",
        'status.containerStatuses[0].allocatedResourcesStatus[1].name: Invalid value: "claim:z": must match one of the '
        "container's resource claims in a format 'claim:<claimName>/<request>' or 'claim:<claimName>' if request is "
        "empty",
        'status.containerStatuses[0].allocatedResourcesStatus[1].resources[0].health: Unsupported value: "Ill": '
        'supported values: "Healthy", "Unhealthy", "Unknown"',
        "status.containerStatuses[0].allocatedResourcesStatus[1].resources[1].resourceID: Duplicate value: "
        '"x"']),
    ("{ephemeralContainerStatuses: [{name: e, allocatedResourcesStatus: [{name: z}]}]}", [
        "status.ephemeralContainerStatuses[0].allocatedResourcesStatus: Forbidden: must not be specified in container "
        "status"]),
]  # fmt: skip


@pytest.mark.parametrize(("status", "expected"), CASES)
def test_refusals(pods: Steps, stored: dict[str, Any], status: str, expected: list[str]) -> None:
    assert refused(pods, stored, status) == expected


# what a container was, what it is, whether the change is refused
TRANSITIONS = [
    (ended("a", 1), "containerStatuses: [{name: a, state: {running: {}}}]", False),
    (ended("a", 0), "containerStatuses: [{name: a, state: {running: {}}}]", True),
    (ended("a", 0), ended("a", 1), False),
    (ended("a", 0), "containerStatuses: []", False),
    (ended("rules", 1), "containerStatuses: [{name: rules, state: {waiting: {}}}]", True),
    (ended("rules", 2), "containerStatuses: [{name: rules}]", False),
    (ended("i", 0, "initContainerStatuses"), "initContainerStatuses: [{name: i}]", True),
    (ended("e", 1, "ephemeralContainerStatuses"), "ephemeralContainerStatuses: [{name: e}]", True),
]


@pytest.mark.parametrize(("before", "status", "is_refused"), TRANSITIONS)
def test_no_container_runs_again_that_ended_for_good(
    pods: Steps, stored: dict[str, Any], before: str, status: str, is_refused: bool
) -> None:
    found = refused(pods, stored, f"{{{status}}}", f"{{{before}}}")
    kind = before.partition(":")[0]
    assert found == ([f"status.{kind}[0].state: Forbidden: {STOPS}"] if is_refused else [])


def test_a_rule_that_restarts_the_pod_restarts_all_its_containers(pods: Steps, stored: dict[str, Any]) -> None:
    stored["spec"]["containers"][1]["restartPolicyRules"][0]["action"] = "RestartAllContainers"
    assert refused(pods, stored, "{containerStatuses: [{name: a}]}", f"{{{ended('a', 0)}}}") == []


def test_pods_for_windows_have_no_user_of_linux(pods: Steps, stored: dict[str, Any]) -> None:
    stored["spec"]["os"] = {"name": "windows"}
    status = "{containerStatuses: [{name: a, user: {linux: {}}}]}"
    path = "status.containerStatuses[0].user.linux"
    assert refused(pods, stored, status) == [f"{path}: Forbidden: cannot be set for a windows pod"]


def test_generations_stay(pods: Steps, stored: dict[str, Any]) -> None:
    stored["status"] |= {"observedGeneration": 3, "conditions": [{"type": "Ready", "observedGeneration": 2}]}
    status = {"conditions": [{"type": "Ready"}, {"type": "Initialized"}]}
    made = pods.update(stored, {**stored, "status": status}, "status")["status"]
    assert made["observedGeneration"] == 3
    assert made["conditions"] == [{"type": "Ready", "observedGeneration": 2}, {"type": "Initialized"}]
    assert (made["phase"], made["qosClass"]) == ("Pending", "BestEffort")


def test_fields_of_disabled_features_are_dropped(pods: Steps, stored: dict[str, Any]) -> None:
    status = "{containerStatuses: [{name: a, volumeMounts: [{name: v, volumeStatus: {}}]}], "
    status += "nodeAllocatableResourceClaimStatuses: []}"
    made = pods.update(stored, {**stored, "status": from_yaml(status)}, "status")["status"]
    assert made["containerStatuses"] == [{"name": "a", "volumeMounts": [{"name": "v"}]}]
    assert "nodeAllocatableResourceClaimStatuses" not in made


def test_addresses_that_are_stored_stay(pods: Steps, stored: dict[str, Any]) -> None:
    old = "{podIPs: [{ip: 'fd00::01'}]}"
    stored["status"] |= from_yaml(old)
    status = from_yaml(old) | {"phase": "Running"}
    pod = {**stored, "status": {**stored["status"], **status}}
    errors = errors_of(pods.resource.strategy.validate_update, pod, stored, "status")
    assert all(error.is_warning for error in errors)
    assert [text.partition(": ")[0] for text in texts(errors)] == ["status.podIPs[0].ip"]
