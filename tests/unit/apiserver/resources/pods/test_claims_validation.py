"""Resource claims and resources of pods and of their containers."""

from __future__ import annotations

import pytest

from .checks import new_steps, pod_with, refusal_of

LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
C = "spec.containers[0].resources"


def with_claims(references: str, claims: str = "{name: c, resourceClaimName: d}") -> str:
    return f"{{resourceClaims: [{claims}], containers: [{{name: a, image: b, resources: {{claims: [{references}]}}}}]}}"


CLAIMS = [
    (with_claims("{name: c}"), []),
    (with_claims("{name: c, request: r}, {name: c, request: s}"), []),
    (with_claims("", "{name: c}"), [
        'spec.resourceClaims[0]: Invalid value: {"Name":"c","ResourceClaimName":null,"ResourceClaimTemplateName":null}:'
        " must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"]),
    (with_claims("", "{name: c, resourceClaimName: d, resourceClaimTemplateName: e}"), [
        'spec.resourceClaims[0]: Invalid value: {"Name":"c","ResourceClaimName":"d","ResourceClaimTemplateName":"e"}:'
        " at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"]),
    (with_claims("", "{name: c, resourceClaimName: d}, {name: c, resourceClaimName: e}"), [
        'spec.resourceClaims[1].name: Duplicate value: "c"']),
    (with_claims("", "{resourceClaimName: d}"), ["spec.resourceClaims[0].name: Required value"]),
    (with_claims("{name: c, request: R}"), [f'{C}.claims[0].request: Invalid value: "R": {LABEL}']),
    (with_claims("{}"), [f"{C}.claims[0]: Required value"]),
    (with_claims("{name: c}, {name: c}"), [f'{C}.claims[1]: Duplicate value: "c"']),
    (with_claims("{name: c, request: r}, {name: c, request: r}"), [f'{C}.claims[1]: Duplicate value: "c/r"']),
    (with_claims("{name: c, request: r}, {name: c}"), [f'{C}.claims[1]: Duplicate value: "c"']),
    (with_claims("{name: c}, {name: c, request: r}"), [f'{C}.claims[1]: Duplicate value: "c"']),
    (with_claims("{name: x}", "{name: d, resourceClaimName: d}, {name: c, resourceClaimName: e}"), [
        f'{C}.claims[0]: Not found: "x": must be one of the names in pod.spec.resourceClaims: c, d']),
    (with_claims("{name: x}", ""), [
        f'{C}.claims[0]: Not found: "x": must be one of the names in pod.spec.resourceClaims which is empty']),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "expected"), CLAIMS)
def test_claims(fields: str, expected: list[str]) -> None:
    assert refusal_of(fields) == expected


# resources of a container -> errors
RESOURCES = [
    ("{limits: {cpu: 1, memory: 1Gi, ephemeral-storage: 1Gi, example.com/gpu: 2}}", []),
    ("{limits: {cpu: 1, hugepages-2Mi: 4Mi}}", []),
    ("{limits: {hugepages-2Mi: 4Mi}}", [f"{C}: Forbidden: HugePages require cpu or memory"]),
    ("{limits: {cpu: 1, hugepages-2Mi: 3Mi}}", [
        f'{C}.{kind}[hugepages-2Mi]: Invalid value: "3Mi": 3Mi is not positive integer multiple of hugepages-2Mi'
        for kind in ("limits", "requests")]),
    ("{limits: {cpu: 1, hugepages-x: 3Mi}, requests: {hugepages-x: 3Mi}}", [
        f'{C}.{kind}[hugepages-x]: Invalid value: "3Mi": 3Mi is not positive integer multiple of hugepages-x'
        for kind in ("limits", "requests")]),
    ("{requests: {cpu: 1, hugepages-2Mi: 2Mi}}", [
        f"{C}.limits: Required value: Limit must be set for non overcommitable resources"]),
    ("{limits: {cpu: 1, hugepages-2Mi: 4Mi}, requests: {hugepages-2Mi: 2Mi}}", [
        f'{C}.requests: Invalid value: "2Mi": must be equal to hugepages-2Mi limit of 4Mi']),
    ("{limits: {example.com/gpu: 500m}}", [
        f'{C}.{kind}[example.com/gpu]: Invalid value: "500m": must be an integer' for kind in ("limits", "requests")]),
    ("{requests: {example.com/gpu: 1}}", [
        f"{C}.limits: Required value: Limit must be set for non overcommitable resources"]),
    ("{limits: {cpu: x}, requests: {cpu: 0}}", [f'{C}.limits[cpu]: Invalid value: "x": must be a quantity']),
    ("{limits: {pods: 1500m}, requests: {pods: 1}}", [
        f'{C}.limits[pods]: Invalid value: "pods": must be a standard resource for containers',
        f'{C}.limits[pods]: Invalid value: "1500m": must be an integer',
        f'{C}.requests[pods]: Invalid value: "pods": must be a standard resource for containers']),
    ("{limits: {requests.example.com/a: 1}}", [
        f'{C}.{kind}[requests.example.com/a]: Invalid value: "requests.example.com/a": doesn\'t follow extended '
        "resource name standard" if what else
        f"{C}.limits: Required value: Limit must be set for non overcommitable resources"
        for kind, what in (("limits", True), ("requests", True))]),
]  # fmt: skip


@pytest.mark.parametrize(("resources", "expected"), RESOURCES)
def test_resources_of_containers(resources: str, expected: list[str]) -> None:
    assert refusal_of(f"{{containers: [{{name: a, image: b, resources: {resources}}}]}}") == expected


POD_RESOURCES = [
    ("{resources: {limits: {cpu: 1}}, os: {name: windows}}", [
        "spec.resources: Forbidden: may not be set for a windows pod"]),
    ("{resources: {claims: [{name: c}]}, resourceClaims: [{name: c, resourceClaimName: d}]}", [
        "spec.resources.claims: Forbidden: claims cannot be set for Resources at pod-level"]),
    ("{resources: {limits: {a b: 1}}}", [
        "spec.resources.limits[a b]: Invalid value: \"a b\": name part must consist of alphanumeric characters, '-', "
        "'_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or "
        "'123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"]),
    ("{resources: {limits: {cpu: 1, hugepages-2Mi: 2Mi}}, containers: [{name: a, image: b, resources: {limits: "
     "{cpu: 1, hugepages-2Mi: 4Mi}}}]}", [
        'spec.resources.requests[hugepages-2Mi]: Invalid value: "2Mi": must be greater than or equal to aggregate '
        "container requests of 4Mi",
        'spec.resources.limits[hugepages-2Mi]: Invalid value: "2Mi": must be greater than or equal to aggregate '
        "container limits of 4Mi",
        'spec.resources.containers[0][hugepages-2Mi].limits: Invalid value: "4Mi": must be less than or equal to pod '
        "limits of 2Mi"]),
    ("{overhead: {cpu: -1, x: 1}}", [
        'spec.overhead.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0',
        'spec.overhead.limits[x]: Invalid value: "x": must be a standard resource type or fully qualified',
        'spec.overhead.limits[x]: Invalid value: "x": must be a standard resource for containers']),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "expected"), POD_RESOURCES)
def test_resources_of_pods(fields: str, expected: list[str]) -> None:
    assert refusal_of(fields) == expected


def test_huge_pages_of_containers_count_for_their_pod() -> None:
    pods = new_steps()
    huge = {"resources": {"limits": {"hugepages-2Mi": "4Mi", "cpu": 1}}}
    spec = {
        "containers": [{"name": name, "image": "b", **huge} for name in "ab"],
        "resources": {"requests": {"cpu": 3}},
    }
    assert pods.create(pod_with(spec))["spec"]["resources"] == {
        "requests": {"cpu": 3, "hugepages-2Mi": "8Mi"},
        "limits": {"hugepages-2Mi": "8Mi"},
    }
