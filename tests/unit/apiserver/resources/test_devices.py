# ruff: noqa: E501
"""Writes of the status of ResourceClaims, and updates of other objects that describe devices."""

import pytest

from tests.unit.apiserver.resources.steps import Steps, from_yaml, table

TABLE = table()
RESULT = "request: a, driver: a.io, pool: p, device: d"
NAMES = "driver: a.io, pool: p, device: d"
UID = "2a3b4c5d-0000-4000-8000-00000000000a"
WHEN = "lastTransitionTime: '2027-01-15T07:50:00Z'"
DEVICE = "status.devices[0]"
NORMAL = "`xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal characters"
REASON = (
    "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric "
    "characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or "
    "'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is "
    "'[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')"
)

# Fields of a device's status, and their errors.
DEVICES = [
    (f"conditions: [{{type: Ready, status: 'True', reason: 'A,B', {WHEN}}}], data: {{a: 1}}, "
     "networkData: {interfaceName: eth1, hardwareAddress: '02:00:00:00:00:01', ips: [10.0.0.1/24, 'fd00::1/64']}", []),
    (f"conditions: [{{type: Ready, status: 'True', reason: a, {WHEN}}}, {{type: Ready, observedGeneration: -1, reason: a b}}]", [
        f'{DEVICE}.conditions[1].type: Duplicate value: "Ready"',
        f'{DEVICE}.conditions[1].status: Unsupported value: "": supported values: "False", "True", "Unknown"',
        f"{DEVICE}.conditions[1].observedGeneration: Invalid value: -1: must be greater than or equal to zero",
        f"{DEVICE}.conditions[1].lastTransitionTime: Required value: must be set",
        f'{DEVICE}.conditions[1].reason: Invalid value: "a b": {REASON}']),
    (f"conditions: [{', '.join(f'{{type: A{i}, status: Unknown, reason: a, {WHEN}}}' for i in range(9))}]", [
        f"{DEVICE}.conditions: Too many: 9: must have at most 8 items"]),
    (f"conditions: [{{type: A, status: 'True', {WHEN}, message: {'a' * 32769}}}]", [
        f"{DEVICE}.conditions[0].reason: Required value: must be set",
        f"{DEVICE}.conditions[0].message: Too long: may not be more than 32768 bytes"]),
    ("data: [1]", [f'{DEVICE}.data: Invalid value: "<value omitted>": must be a valid JSON object']),
    (f"networkData: {{interfaceName: {'a' * 257}, ips: [10.0.0.1/24, 10.0.0.1/24]}}", [
        f"{DEVICE}.networkData.interfaceName: Too long: may not be more than 256 bytes",
        f'{DEVICE}.networkData.ips[1]: Duplicate value: "10.0.0.1/24"']),
]  # fmt: skip

# An allocated device, and the errors.
RESULTS = [
    (f"shareID: {UID}, bindingConditions: [a], bindingFailureConditions: [b], tolerations: [{{}}]", []),
    ("shareID: a", ['shareID: Invalid value: "a": error validating uid: invalid UUID length: 1']),
    (f"shareID: {UID[:-1]}x", [f'shareID: Invalid value: "{UID[:-1]}x": error validating uid: invalid UUID format']),
    (f"shareID: {UID.upper()}", [
        f'shareID: Invalid value: "{UID.upper()}": uid must be in RFC 4122 normalized form, {NORMAL}']),
    ("bindingConditions: [a]", [
        "bindingFailureConditions: Invalid value: null: bindingFailureConditions are required to use bindingConditions"]),
]  # fmt: skip


def refusal_of_status(status):
    steps = Steps(TABLE["resourceclaims.resource.k8s.io"])
    old = steps.create(
        from_yaml("{metadata: {name: x}, spec: {devices: {requests: [{name: a, exactly: {deviceClassName: gpu}}]}}}")
    )
    return steps.update_refusal(old, {**old, "status": from_yaml(f"{{{status}}}")}, "status")


@pytest.mark.parametrize(("device", "errors"), DEVICES)
def test_states_of_devices_are_validated(device, errors):
    allocation = f"allocation: {{devices: {{results: [{{{RESULT}}}]}}}}"
    assert refusal_of_status(f"{allocation}, devices: [{{{NAMES}, {device}}}]") == errors


@pytest.mark.parametrize(("result", "errors"), RESULTS)
def test_results_of_allocations_are_validated(result, errors):
    expected = [f"status.allocation.devices.results[0].{error}" for error in errors]
    assert refusal_of_status(f"allocation: {{devices: {{results: [{{{RESULT}, {result}}}]}}}}") == expected


def update(kind, old, new, subresource=""):
    """Return what an update stores, and its errors."""
    steps = Steps(TABLE[kind])
    before = steps.create({"metadata": {"name": "x"}, **from_yaml(old)})
    return steps.update_refusal(before, {"metadata": {"name": "x"}, **from_yaml(new)}, subresource)


SLICE = "{spec: {driver: a.io, pool: {name: p, resourceSliceCount: 1}, nodeName: n, devices: [{name: d, taints: [{key: a, effect: %s}]}]}}"


def test_taints_of_a_device_are_validated_when_they_change():
    kind = "resourceslices.resource.k8s.io"
    assert update(kind, SLICE % "None", SLICE % "Other") == [
        'spec.devices[0].taints[0].effect: Unsupported value: "Other": supported values: "NoExecute", "NoSchedule", "None"'
    ]
    stored = {"metadata": {"name": "x"}, **from_yaml(SLICE % "Other")}
    assert Steps(TABLE[kind]).update_refusal(stored, stored) == []


def test_stored_parameters_of_a_class_may_be_large():
    kind = "deviceclasses.resource.k8s.io"
    text = (
        f"{{metadata: {{name: x}}, spec: {{config: [{{opaque: {{driver: %s, parameters: {{a: {'b' * 10240}}}}}}}]}}}}"
    )
    stored, changed = from_yaml(text % "a.io"), from_yaml(text % "b.io")
    assert Steps(TABLE[kind]).update_refusal(stored, stored) == []
    assert Steps(TABLE[kind]).update_refusal(stored, changed) == [
        "spec.config[0].opaque.parameters: Too long: may not be more than 10240 bytes"
    ]
