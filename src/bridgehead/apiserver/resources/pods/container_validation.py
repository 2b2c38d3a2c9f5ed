"""Validation of containers in pods and pod templates.

Called by `pod_validation`. Pure: no I/O, no clock, no randomness.
Source: Kubernetes `validateContainerCommon` and what it calls.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared import field
from bridgehead.apiserver.resources.shared.keys import check_config_key, check_env_name, check_local_path
from bridgehead.apiserver.resources.shared.ports import PROTOCOLS
from bridgehead.apiserver.resources.shared.quantities import amount_of
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


@dataclass(slots=True, frozen=True)
class OfPod:
    """Facts about the pod of a container that is validated. `volumes` are the types of its valid volumes by name."""

    volumes: Mapping[str, str]
    claims: Collection[str]
    host_users: bool
    grace_seconds: int


def validate_container(path: str, container: JsonObject, pod: OfPod) -> list[FieldError]:
    """Validate what containers of all kinds have."""
    volumes = pod.volumes
    name = container.get("name", "")
    errors = field.required_valid(f"{path}.name", name, check_dns1123_label)
    if not container.get("image"):
        errors.append(field.required(f"{path}.image"))
    policy = container.get("terminationMessagePolicy")
    errors.extend(field.one_of(f"{path}.terminationMessagePolicy", policy, _MESSAGE_POLICIES))
    errors.extend(_validate_ports(f"{path}.ports", container.get("ports", ())))
    errors.extend(_validate_env(f"{path}.env", container.get("env", ()), volumes))
    errors.extend(_validate_env_from(f"{path}.envFrom", container.get("envFrom", ())))
    context = container.get("securityContext", {})
    is_privileged = context.get("privileged", False)
    mounts, devices = container.get("volumeMounts", ()), container.get("volumeDevices", ())
    mounted = {mount.get("name", ""): mount.get("mountPath", "") for mount in mounts}
    attached = {device.get("name", ""): device.get("devicePath", "") for device in devices}
    errors.extend(_validate_mounts(f"{path}.volumeMounts", mounts, volumes, attached, is_privileged=is_privileged))
    errors.extend(_validate_devices(f"{path}.volumeDevices", devices, volumes, mounted))
    errors.extend(field.one_of(f"{path}.imagePullPolicy", container.get("imagePullPolicy"), PULL_POLICIES))
    errors.extend(validate_resources(f"{path}.resources", container.get("resources", {}), pod.claims))
    return [*errors, *validate_security_context(f"{path}.securityContext", context, host_users=pod.host_users)]


def validate_hooks(path: str, container: JsonObject, grace_seconds: int) -> list[FieldError]:
    """Validate the hooks and the probes of a container that goes on."""
    errors = []
    lifecycle = container.get("lifecycle", {})
    for hook in ("postStart", "preStop"):
        if hook in lifecycle:
            errors.extend(validate_handler(f"{path}.lifecycle.{hook}", lifecycle[hook], grace_seconds))
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        if probe in container:
            errors.extend(validate_probe(f"{path}.{probe}", container[probe], probe, grace_seconds))
    return errors


def _validate_ports(path: str, ports: Sequence[JsonObject]) -> list[FieldError]:
    errors = []
    names: set[str] = set()
    for index, port in enumerate(ports):
        item = f"{path}[{index}]"
        if name := port.get("name", ""):
            if reasons := check_port_name(name):
                errors.extend(field.invalid_for(f"{item}.name", name, reasons))
            elif name in names:
                errors.append(field.duplicate(f"{item}.name", name))
            names.add(name)
        if number := port.get("containerPort", 0):
            errors.extend(field.invalid_for(f"{item}.containerPort", number, check_port_number(number)))
        else:
            errors.append(field.required(f"{item}.containerPort"))
        if host_port := port.get("hostPort", 0):
            errors.extend(field.invalid_for(f"{item}.hostPort", host_port, check_port_number(host_port)))
        errors.extend(field.one_of(f"{item}.protocol", port.get("protocol", ""), PROTOCOLS))
    return errors


# --- Environment -----------------------------------------------------------------------------------------


def _validate_env(path: str, variables: Sequence[JsonObject], volumes: Mapping[str, str]) -> list[FieldError]:
    errors = []
    for index, variable in enumerate(variables):
        item = f"{path}[{index}]"
        errors.extend(field.required_valid(f"{item}.name", variable.get("name", ""), check_env_name))
        if "valueFrom" in variable:
            source = variable["valueFrom"]
            errors.extend(_validate_env_source(f"{item}.valueFrom", source, variable.get("value", "")))
            if "fileKeyRef" in source:
                errors.extend(_validate_file_key_ref(f"{item}.valueFrom.fileKeyRef", source["fileKeyRef"], volumes))
    return errors


def _validate_env_source(path: str, source: JsonObject, value: str) -> list[FieldError]:
    given = [name for name in _ENV_SOURCES if name in source]
    if not given:
        detail = (
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        )
        return [field.invalid(path, "", detail)]
    errors = []
    if "fieldRef" in source:
        errors.extend(validate_field_ref(f"{path}.fieldRef", source["fieldRef"], _POD_FIELDS))
    if "resourceFieldRef" in source:
        errors.extend(validate_resource_field_ref(f"{path}.resourceFieldRef", source["resourceFieldRef"]))
    for name in ("configMapKeyRef", "secretKeyRef"):
        if name in source:
            reference = source[name]
            referent, key = reference.get("name", ""), reference.get("key", "")
            errors.extend(field.invalid_for(f"{path}.{name}.name", referent, check_dns1123_subdomain(referent)))
            errors.extend(field.required_valid(f"{path}.{name}.key", key, check_config_key))
    if value:
        errors.append(field.invalid(path, "", "may not be specified when `value` is not empty"))
    elif len(given) > 1:
        errors.append(field.invalid(path, "", "may not have more than one field specified at a time"))
    return errors


def _validate_file_key_ref(path: str, reference: JsonObject, volumes: Mapping[str, str]) -> list[FieldError]:
    errors = [field.required(f"{path}.{name}") for name in ("key", "volumeName") if not reference.get(name)]
    file = reference.get("path", "")
    errors.extend(field.required_valid(f"{path}.path", file, check_local_path))
    if volume := reference.get("volumeName", ""):
        item = f"{path}.volumeName"
        if volume not in volumes:
            errors.append(field.not_found(item, volume))
        elif volumes[volume] != "emptyDir":
            errors.append(field.invalid(item, volume, "referenced volume must be of type emptyDir"))
    return errors


def validate_field_ref(path: str, reference: JsonObject, supported: Sequence[str]) -> list[FieldError]:
    """Validate a downward API reference to a field of the pod. The API version has its default."""
    version, field_path = reference["apiVersion"], reference.get("fieldPath", "")
    if not field_path:
        return [field.required(f"{path}.fieldPath")]
    found = _SUBSCRIPT.fullmatch(field_path)
    if version != "v1":
        reason = f"unsupported pod version: {version}"
    elif found and found["field"] not in _SUBSCRIPTED:
        reason = f"field label does not support subscript: {field_path}"
    elif not found and field_path not in _KNOWN_FIELDS:
        reason = f"field label not supported: {field_path}"
    elif found:
        key = found["key"].lower() if found["field"] == "metadata.annotations" else found["key"]
        return field.invalid_for(path, key, check_qualified_name(key))
    else:
        return field.one_of(f"{path}.fieldPath", field_path, supported)
    return [field.invalid(f"{path}.fieldPath", field_path, f"error converting fieldPath: {reason}")]


def validate_resource_field_ref(path: str, reference: JsonObject, *, names_container: bool = False) -> list[FieldError]:
    """Validate a downward API reference to a request or limit of a container; volumes must name the container."""
    resource = reference.get("resource", "")
    errors = []
    if names_container and not reference.get("containerName"):
        errors.append(field.required(f"{path}.containerName"))
    elif not resource:
        errors.append(field.required(f"{path}.resource"))
    elif not resource.startswith(_HUGE_PAGES):
        errors.extend(field.one_of(f"{path}.resource", resource, _CONTAINER_FIELDS))
    return [*errors, *_validate_divisor(f"{path}.divisor", resource, str(reference.get("divisor", "0")))]


def _validate_divisor(path: str, resource: str, divisor: str) -> list[FieldError]:
    """Validate the unit in which a request or limit is shown. 0 is 1 of the resource's unit."""
    kind = "hugepages" if resource.startswith(_HUGE_PAGES) else resource.partition(".")[2]
    if kind not in _DIVISORS or not amount_of(divisor):
        return []
    divisors, name = _DIVISORS[kind]
    if canonical_quantity(divisor) in divisors:
        return []
    return [field.invalid(path, resource, f"only divisor's values {name}")]


def _validate_env_from(path: str, sources: Sequence[JsonObject]) -> list[FieldError]:
    errors = []
    for index, source in enumerate(sources):
        item = f"{path}[{index}]"
        if prefix := source.get("prefix"):
            errors.extend(field.invalid_for(f"{item}.prefix", prefix, check_env_name(prefix)))
        given = [name for name in ("configMapRef", "secretRef") if name in source]
        for name in given:
            referent = source[name].get("name", "")
            errors.extend(field.required_valid(f"{item}.{name}.name", referent, check_dns1123_subdomain))
        if not given:
            errors.append(field.invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"))
        elif len(given) > 1:
            errors.append(field.invalid(path, "", "may not have more than one field specified at a time"))
    return errors


# --- Mounts --------------------------------------------------------------------------------


def _validate_mounts(
    path: str,
    mounts: Sequence[JsonObject],
    volumes: Collection[str],
    devices: Mapping[str, str],
    *,
    is_privileged: bool,
) -> list[FieldError]:
    """Validate mounts. `devices` are the paths of the container's block devices by volume."""
    errors = []
    points: set[str] = set()
    device_points = set(devices.values())
    for index, mount in enumerate(mounts):
        item = f"{path}[{index}]"
        name, point = mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            errors.append(field.required(f"{item}.name"))
        if name not in volumes:
            errors.append(field.not_found(f"{item}.name", name))
        if not point:
            errors.append(field.required(f"{item}.mountPath"))
        if point in points:
            errors.append(field.invalid(f"{item}.mountPath", point, "must be unique"))
        points.add(point)
        if name in devices:
            errors.append(field.invalid(f"{item}.name", name, "must not already exist in volumeDevices"))
        if point in device_points:
            detail = "must not already exist as a path in volumeDevices"
            errors.append(field.invalid(f"{item}.mountPath", point, detail))
        # The paths of the errors below lack the mount's index, as in Kubernetes.
        for sub in ("subPath", "subPathExpr"):
            if value := mount.get(sub):
                if sub == "subPathExpr" and mount.get("subPath"):
                    detail = "subPathExpr and subPath are mutually exclusive"
                    errors.append(field.invalid(f"{item}.subPathExpr", value, detail))
                errors.extend(field.invalid_for(f"{path}.{sub}", value, check_local_path(value)))
        if "mountPropagation" in mount:
            propagation = mount["mountPropagation"]
            errors.extend(field.one_of(f"{path}.mountPropagation", propagation, _PROPAGATIONS))
            if propagation == "Bidirectional" and not is_privileged:
                detail = "Bidirectional mount propagation is available only to privileged containers"
                errors.append(field.forbidden(f"{path}.mountPropagation", detail))
        errors.extend(_validate_recursive_read_only(f"{path}.recursiveReadOnly", mount))
    return errors


def _validate_devices(
    path: str, devices: Sequence[JsonObject], volumes: Mapping[str, str], mounts: Mapping[str, str]
) -> list[FieldError]:
    """Validate block devices. `mounts` are the paths of the container's mounts by volume."""
    errors = []
    names: set[str] = set()
    points: set[str] = set()
    mount_points = set(mounts.values())
    for index, device in enumerate(devices):
        item = f"{path}[{index}]"
        name, point = device.get("name", ""), device.get("devicePath", "")
        if not name:
            errors.append(field.required(f"{item}.name"))
        if name in names:
            errors.append(field.invalid(f"{item}.name", name, "must be unique"))
        if name not in volumes:
            errors.append(field.not_found(f"{item}.name", name))
        elif volumes[name] not in _BLOCK_SOURCES:
            detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            errors.append(field.invalid(f"{item}.name", name, detail))
        if not point:
            errors.append(field.required(f"{item}.devicePath"))
        if point in points:
            errors.append(field.invalid(f"{item}.devicePath", point, "must be unique"))
        if ".." in point.split("/"):
            errors.append(field.invalid(f"{item}.devicePath", point, "can not contain backsteps ('..')"))
        else:
            points.add(point)
        if name in mounts:
            errors.append(field.invalid(f"{item}.name", name, "must not already exist in volumeMounts"))
        if point in mount_points:
            detail = "must not already exist as a path in volumeMounts"
            errors.append(field.invalid(f"{item}.devicePath", point, detail))
        if name:
            names.add(name)
    return errors


def _validate_recursive_read_only(path: str, mount: JsonObject) -> list[FieldError]:
    mode = mount.get("recursiveReadOnly", "Disabled")
    if mode == "Disabled" or mode not in _RECURSIVE_READ_ONLY:
        return field.one_of(path, mode, _RECURSIVE_READ_ONLY)
    errors = []
    if not mount.get("readOnly"):
        errors.append(field.forbidden(path, "may only be specified when readOnly is true"))
    if mount.get("mountPropagation", "None") != "None":
        detail = "may only be specified when mountPropagation is None or not specified"
        errors.append(field.forbidden(path, detail))
    return errors
