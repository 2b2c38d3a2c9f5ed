"""Objects with as many items as a request may have: their errors and warnings stay few and short."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import errors_of
from bridgehead.apiserver.resources.devices.device_rules import validate_binding_conditions
from bridgehead.apiserver.resources.pods.claims_validation import claim_names, validate_claim_references
from bridgehead.apiserver.resources.pods.pod_warnings import warn_of_pod
from bridgehead.apiserver.resources.runtimeclasses import RuntimeClassStrategy
from bridgehead.apiserver.resources.storage.storageclasses import StorageClassStrategy

MANY = 20_000


def ports(*all_of: dict[str, Any]) -> list[str]:
    return warn_of_pod({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "a", "ports": list(all_of)}]}})


def files(*paths: str) -> list[str]:
    volume = {"name": "v", "configMap": {"name": "c", "items": [{"key": "k", "path": path} for path in paths]}}
    return warn_of_pod({"metadata": {"name": "a"}, "spec": {"volumes": [volume]}})


@pytest.mark.parametrize(
    "port",
    [{"containerPort": 1}, {"containerPort": 1, "hostPort": 2}, {"containerPort": 1, "hostPort": 2, "hostIP": "::1"}],
)
def test_warnings_about_equal_ports_end(port):
    assert 100 < len(ports(*[port] * MANY)) < 1000


def test_ports_without_conflict_are_not_compared():
    different: Iterator[dict[str, Any]] = ({"containerPort": 1, "hostPort": number} for number in range(1, MANY))
    last = {"containerPort": 1, "hostPort": MANY - 1, "hostIP": "::1"}
    item = f"spec.containers[0].ports[{MANY - 1}]"
    other = f"spec.containers[0].ports[{MANY - 2}]"
    assert ports(*different, last) == [f"{item}: dangerously ambiguous port definition with {other}"]


def test_warnings_about_overlapping_files_end():
    assert 100 < len(files(*["a"] * MANY)) < 1000
    assert 100 < len(files(*("a/" * depth + "a" for depth in range(500)))) < 1000


def test_files_without_overlap_are_not_compared():
    title = 'volume "v" (ConfigMap "c"): overlapping paths'
    found = files("d5/x", *(f"d{index}" for index in range(MANY)), "d7/x", "d5-a")
    assert found == [f'{title}: "d5" with "d5/x"', f'{title}: "d7/x" with "d7"']


def test_errors_about_unknown_claims_list_few_names():
    names = claim_names({"resourceClaims": [{"name": f"c{index:05}"} for index in range(MANY)]})
    claims = Field([{"name": f"x{index}"} for index in range(MANY)], "claims")
    validate_claim_references(claims, names)
    errors = claims.errors
    assert len(errors) == MANY
    assert errors[0].message.endswith("c00014, c00015, ...")
    assert max(len(error.message) for error in errors) < 500


def test_equal_topologies_have_a_limited_number_of_errors():
    strategy = StorageClassStrategy()
    errors = strategy.validate({"provisioner": "a/b", "allowedTopologies": [{}] * MANY})
    duplicates = [error for error in errors if error.reason == "FieldValueDuplicate"]
    assert len(duplicates) == 1000


def test_device_conditions_beyond_the_limit_are_not_compared():
    many = ["a"] * MANY
    device = Field({"bindingConditions": many, "bindingFailureConditions": many})
    validate_binding_conditions(device)
    assert [error.reason for error in device.errors] == ["FieldValueTooMany"] * 2


def test_equal_tolerations_are_found_among_many():
    strategy = RuntimeClassStrategy()
    tolerations = [{"key": f"k{index}", "operator": "Exists"} for index in range(MANY)]
    runtime_class = {"handler": "a", "scheduling": {"tolerations": [*tolerations, tolerations[0]]}}
    errors = errors_of(strategy.validate, runtime_class)
    assert [error.field for error in errors] == [f"scheduling.tolerations[{MANY}]"]
