"""Validation of containers in pods and pod templates.

Called by `pod_validation`. Pure: no I/O, no clock, no randomness.
Source: Kubernetes `validateContainerCommon` and what it calls.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resources.shared.keys import check_config_key, check_env_name, check_local_path
from bridgehead.apiserver.resources.shared.port_rules import PROTOCOLS
from bridgehead.apiserver.resources.shared.quantity_rules import amount_of
from bridgehead.objects.names import (
    check_dns1123_label,
    check_dns1123_subdomain,
    check_port_name,
    check_port_number,
    check_qualified_name,
)
from bridgehead.objects.quantities import canonical_quantity

from .probe_validation import validate_handler, validate_probe
from .resource_validation import validate_resources
from .security_validation import validate_security_context

PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
_BLOCK_SOURCES = ("persistentVolumeClaim", "ephemeral")
_PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
_RECURSIVE_READ_ONLY = ("Disabled", "Enabled", "IfPossible")
_POD_FIELDS = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
_CONTAINER_FIELDS = (
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
)
_KNOWN_FIELDS = (
    *_POD_FIELDS,
    "metadata.annotations",
    "metadata.labels",
    "spec.restartPolicy",
    "spec.schedulerName",
    "status.phase",
)
_SUBSCRIPTED = ("metadata.annotations", "metadata.labels")
_HUGE_PAGES = ("limits.hugepages-", "requests.hugepages-")
_CPU_DIVISORS = ("1m", "1")
_BYTE_DIVISORS = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")
# resource -> its divisors, and how Kubernetes names them
_DIVISORS = {
    "cpu": (_CPU_DIVISORS, "1m and 1 are supported with the cpu resource"),
    "memory": (_BYTE_DIVISORS, f"{', '.join(_BYTE_DIVISORS)} are supported with the memory resource"),
    "ephemeral-storage": (
        _BYTE_DIVISORS,
        f"{', '.join(_BYTE_DIVISORS)} are supported with the local ephemeral storage resource",
    ),
    "hugepages": (_BYTE_DIVISORS, f"{', '.join(_BYTE_DIVISORS)} are supported with the hugepages resource"),
}
_ENV_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_SUBSCRIPT = re.compile(r"(?P<field>.+?)\['(?P<key>.*)'\]", re.DOTALL)
RESTART_POLICIES = ("Always", "OnFailure", "Never")
_ACTIONS = ("Restart", "RestartAllContainers")
_OPERATORS = ("In", "NotIn")
_MOST_RULES, _MOST_VALUES = 20, 255


@dataclass(slots=True, frozen=True)
class OfPod:
    """Facts about the pod of a container that is validated. `volumes` are the types of its valid volumes by name."""

    volumes: Mapping[str, str]
    claims: Collection[str]
    host_users: bool
    grace_seconds: int


def validate_container(container: Field, pod: OfPod) -> None:
    """Validate what containers of all kinds have."""
    volumes, context = pod.volumes, container.at("securityContext", {})
    mounts, devices = container.at("volumeMounts", ()), container.at("volumeDevices", ())
    container.at("name").must_be_set_and_pass(check_dns1123_label)
    container.at("image").must_be_set()
    container.at("terminationMessagePolicy", "").must_be_one_of(_MESSAGE_POLICIES)
    _validate_ports(container.at("ports"))
    _validate_env(container.at("env"), volumes)
    _validate_env_from(container.at("envFrom"))
    attached = {device.get("name", ""): device.get("devicePath", "") for device in devices.value}
    _validate_mounts(mounts, volumes, attached, is_privileged=context.get("privileged", False))
    mounted = {mount.get("name", ""): mount.get("mountPath", "") for mount in mounts.value}
    _validate_devices(devices, volumes, mounted)
    container.at("imagePullPolicy", "").must_be_one_of(PULL_POLICIES)
    validate_resources(container.at("resources"), pod.claims)
    validate_security_context(context, host_users=pod.host_users)


def validate_hooks(container: Field, grace_seconds: int) -> None:
    """Validate the hooks and the probes of a container that goes on."""
    lifecycle = container.at("lifecycle")
    for hook in ("postStart", "preStop"):
        lifecycle.at(hook).must_obey(validate_handler, grace_seconds)
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        container.at(probe).must_obey(validate_probe, probe, grace_seconds)


def _validate_ports(ports: Field) -> None:
    names: set[str] = set()
    for port in ports.each():
        name = port.at("name")
        if name and name.must_pass(check_port_name):
            name.must_not_repeat(names)
        port.at("containerPort").must_be_set_and_pass(check_port_number)
        port.if_set("hostPort").must_pass(check_port_number)
        port.at("protocol", "").must_be_one_of(PROTOCOLS)


# --- Environment -----------------------------------------------------------------------------------------


def _validate_env(variables: Field, volumes: Mapping[str, str]) -> None:
    for variable in variables.each():
        variable.at("name").must_be_set_and_pass(check_env_name)
        if "valueFrom" in variable.value:
            source = variable.at("valueFrom")
            _validate_env_source(source, has_value=bool(variable.get("value")))
            source.at("fileKeyRef").must_obey(_validate_file_key_ref, volumes)


def _validate_env_source(source: Field, *, has_value: bool) -> None:
    given = [name for name in _ENV_SOURCES if name in source.value]
    if "fieldRef" in given:
        validate_field_ref(source.at("fieldRef"), _POD_FIELDS)
    if "resourceFieldRef" in given:
        validate_resource_field_ref(source.at("resourceFieldRef"))
    for name in ("configMapKeyRef", "secretKeyRef"):
        if name in given:
            reference = source.at(name)
            reference.at("name", "").must_pass(check_dns1123_subdomain)
            reference.at("key").must_be_set_and_pass(check_config_key)
    if not given:
        source.showing("").invalid(
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        )
    elif has_value:
        source.showing("").invalid("may not be specified when `value` is not empty")
    elif len(given) > 1:
        source.showing("").invalid("may not have more than one field specified at a time")


def _validate_file_key_ref(reference: Field, volumes: Mapping[str, str]) -> None:
    volume = reference.at("volumeName")
    reference.at("key").must_be_set()
    volume.must_be_set()
    reference.at("path").must_be_set_and_pass(check_local_path)
    if volume and volume.value not in volumes:
        volume.not_found()
    elif volume and volumes[volume.value] != "emptyDir":
        volume.invalid("referenced volume must be of type emptyDir")


def validate_field_ref(reference: Field, supported: Sequence[str]) -> None:
    """Validate a downward API reference to a field of the pod. The API version has its default."""
    version, path = reference.value["apiVersion"], reference.at("fieldPath")
    if not path.must_be_set():
        return
    found = _SUBSCRIPT.fullmatch(path.value)
    reason = ""
    if version != "v1":
        reason = f"unsupported pod version: {version}"
    elif found and found["field"] not in _SUBSCRIPTED:
        reason = f"field label does not support subscript: {path.value}"
    elif not found and path.value not in _KNOWN_FIELDS:
        reason = f"field label not supported: {path.value}"
    if reason:
        path.invalid(f"error converting fieldPath: {reason}")
    elif found:
        key = found["key"].lower() if found["field"] == "metadata.annotations" else found["key"]
        reference.showing(key).must_pass(check_qualified_name)
    else:
        path.must_be_one_of(supported)


def validate_resource_field_ref(reference: Field, *, names_container: bool = False) -> None:
    """Validate a downward API reference to a request or limit of a container; volumes must name the container."""
    resource = reference.at("resource", "")
    if names_container and not reference.get("containerName"):
        reference.at("containerName").required()
    elif resource.must_be_set() and not resource.value.startswith(_HUGE_PAGES):
        resource.must_be_one_of(_CONTAINER_FIELDS)
    _validate_divisor(reference.at("divisor"), resource.value)


def _validate_divisor(divisor: Field, resource: str) -> None:
    """Validate the unit in which a request or limit is shown. 0 is 1 of the resource's unit."""
    kind = "hugepages" if resource.startswith(_HUGE_PAGES) else resource.partition(".")[2]
    if not divisor or kind not in _DIVISORS or not amount_of(str(divisor.value)):
        return
    divisors, name = _DIVISORS[kind]
    if canonical_quantity(str(divisor.value)) not in divisors:
        divisor.showing(resource).invalid(f"only divisor's values {name}")


def _validate_env_from(sources: Field) -> None:
    for source in sources.each():
        source.if_set("prefix").must_pass(check_env_name)
        given = [name for name in ("configMapRef", "secretRef") if name in source.value]
        for name in given:
            source.at(name).at("name").must_be_set_and_pass(check_dns1123_subdomain)
        if not given:
            sources.showing("").invalid("must specify one of: `configMapRef` or `secretRef`")
        elif len(given) > 1:
            sources.showing("").invalid("may not have more than one field specified at a time")


# --- Mounts --------------------------------------------------------------------------------


def _validate_mounts(
    mounts: Field, volumes: Collection[str], devices: Mapping[str, str], *, is_privileged: bool
) -> None:
    """Validate mounts. `devices` are the paths of the container's block devices by volume."""
    points: set[str] = set()
    device_points = set(devices.values())
    for mount in mounts.each():
        name, point = mount.at("name", ""), mount.at("mountPath", "")
        name.must_be_set()
        if name.value not in volumes:
            name.not_found()
        point.must_be_set()
        point.must_not_be_in(points, "must be unique")
        points.add(point.value)
        name.must_not_be_in(devices, "must not already exist in volumeDevices")
        point.must_not_be_in(device_points, "must not already exist as a path in volumeDevices")
        # Kubernetes leaves the index out of the paths of the errors below.
        unnumbered = mounts.showing(mount.value)
        unnumbered.if_set("subPath").must_pass(check_local_path)
        if path := unnumbered.at("subPathExpr"):
            if mount.get("subPath"):
                mount.at("subPathExpr").invalid("subPathExpr and subPath are mutually exclusive")
            path.must_pass(check_local_path)
        if "mountPropagation" in mount.value or "recursiveReadOnly" in mount.value:
            _validate_mount_modes(unnumbered, is_privileged=is_privileged)


def _validate_mount_modes(mount: Field, *, is_privileged: bool) -> None:
    """Validate how a mount follows other mounts."""
    propagation, read_only = mount.at("mountPropagation", "None"), mount.at("recursiveReadOnly", "Disabled")
    propagation.must_be_one_of(_PROPAGATIONS)
    if propagation.value == "Bidirectional" and not is_privileged:
        propagation.forbidden("Bidirectional mount propagation is available only to privileged containers")
    if read_only.value != "Disabled" and read_only.must_be_one_of(_RECURSIVE_READ_ONLY):
        if not mount.get("readOnly"):
            read_only.forbidden("may only be specified when readOnly is true")
        if propagation.value != "None":
            read_only.forbidden("may only be specified when mountPropagation is None or not specified")


def _validate_devices(devices: Field, volumes: Mapping[str, str], mounts: Mapping[str, str]) -> None:
    """Validate block devices. `mounts` are the paths of the container's mounts by volume."""
    names: set[str] = set()
    points: set[str] = set()
    mount_points = set(mounts.values())
    for device in devices.each():
        name, point = device.at("name", ""), device.at("devicePath", "")
        if name.must_be_set() and name.value in names:
            name.invalid("must be unique")
        names.add(name.value)
        if name.value not in volumes:
            name.not_found()
        elif volumes[name.value] not in _BLOCK_SOURCES:
            name.invalid("can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode")
        point.must_be_set()
        point.must_not_be_in(points, "must be unique")
        if ".." in point.value.split("/"):
            point.invalid("can not contain backsteps ('..')")
        else:
            points.add(point.value)
        name.must_not_be_in(mounts, "must not already exist in volumeMounts")
        point.must_not_be_in(mount_points, "must not already exist as a path in volumeMounts")


def validate_restarts(container: Field) -> None:
    """Validate `restartPolicy` and `restartPolicyRules` of a container or an init container."""
    policy, rules = container.at("restartPolicy"), container.at("restartPolicyRules")
    policy.must_be_one_of(RESTART_POLICIES)
    if rules and policy.value is None:
        policy.required("must specify restartPolicy when restart rules are used")
    rules.must_have_at_most(_MOST_RULES)
    rules.must_all_obey(_validate_rule)


def _validate_rule(rule: Field) -> None:
    rule.at("action", "").must_be_one_of(_ACTIONS)
    codes = rule.at("exitCodes")
    if not codes.must_exist("must be specified"):
        return
    codes.at("operator", "").must_be_one_of(_OPERATORS)
    codes.at("values").must_have_at_most(_MOST_VALUES)
