"""What a container of a pod or of a template may say.

Pure; called by `pod_validation`. Source: Kubernetes `validateContainerCommon` and what it calls.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from bridgehead.apiserver.resource import FieldError, JsonObject
from bridgehead.objects.names import (
    check_dns1123_label,
    check_dns1123_subdomain,
    check_port_name,
    check_port_number,
    check_qualified_name,
)

from . import field
from .keys import check_config_key, check_env_name, check_local_path
from .ports import PROTOCOLS
from .probe_validation import validate_handler, validate_probe
from .quantities import amount_of, validate_quantity
from .security_validation import validate_security_context

_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_MESSAGE_POLICIES = ("FallbackToLogsOnError", "File")
_PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
_STANDARD_RESOURCES = ("cpu", "memory", "ephemeral-storage")
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
_ENV_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_SUBSCRIPT = re.compile(r"(metadata\.(?:annotations|labels))\['(.*)'\]")


def validate_container(
    path: str, container: JsonObject, volumes: Sequence[str], grace_seconds: int, *, host_users: bool
) -> list[FieldError]:
    """Rules that hold for containers and init containers alike. `volumes` are the pod's, by name; `host_users` is the
    pod's hostUsers."""
    name = container.get("name", "")
    errors = (
        field.invalid_for(f"{path}.name", name, check_dns1123_label(name)) if name else [field.required(f"{path}.name")]
    )
    image = container.get("image", "")
    if image != image.strip():
        errors.append(field.invalid(f"{path}.image", image, "must not have leading or trailing whitespace"))
    errors.extend(field.one_of(f"{path}.imagePullPolicy", container.get("imagePullPolicy"), _PULL_POLICIES))
    policy = container.get("terminationMessagePolicy")
    errors.extend(field.one_of(f"{path}.terminationMessagePolicy", policy, _MESSAGE_POLICIES))
    errors.extend(_validate_ports(f"{path}.ports", container.get("ports", ())))
    errors.extend(_validate_env(f"{path}.env", container.get("env", ())))
    errors.extend(_validate_env_from(f"{path}.envFrom", container.get("envFrom", ())))
    errors.extend(_validate_mounts(f"{path}.volumeMounts", container.get("volumeMounts", ()), volumes))
    errors.extend(_validate_resources(f"{path}.resources", container.get("resources", {})))
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        if probe in container:
            errors.extend(validate_probe(f"{path}.{probe}", container[probe], probe, grace_seconds))
    for hook, handler in container.get("lifecycle", {}).items():
        if isinstance(handler, dict):
            errors.extend(validate_handler(f"{path}.lifecycle.{hook}", handler, grace_seconds))
    context = container.get("securityContext", {})
    return [*errors, *validate_security_context(f"{path}.securityContext", context, host_users=host_users)]


def _validate_ports(path: str, ports: Sequence[JsonObject]) -> list[FieldError]:
    errors = []
    names: set[str] = set()
    for index, port in enumerate(ports):
        item = f"{path}[{index}]"
        if name := port.get("name", ""):
            errors.extend(field.invalid_for(f"{item}.name", name, check_port_name(name)))
            if name in names:
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


def _validate_env(path: str, variables: Sequence[JsonObject]) -> list[FieldError]:
    errors = []
    for index, variable in enumerate(variables):
        item = f"{path}[{index}]"
        name = variable.get("name", "")
        if not name:
            errors.append(field.required(f"{item}.name"))
        else:
            errors.extend(field.invalid_for(f"{item}.name", name, check_env_name(name)))
        if "valueFrom" in variable:
            errors.extend(_validate_env_source(f"{item}.valueFrom", variable["valueFrom"], variable.get("value", "")))
    return errors


def _validate_env_source(path: str, source: JsonObject, value: str) -> list[FieldError]:
    given = [name for name in _ENV_SOURCES if name in source]
    if not given:
        detail = (
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        )
        return [field.invalid(path, "", detail)]
    errors = []
    if value:
        errors.append(field.invalid(path, "", "may not be specified when `value` is not empty"))
    if len(given) > 1:
        errors.append(field.invalid(path, "", "may not have more than one field specified at a time"))
    if "fieldRef" in source:
        errors.extend(validate_field_ref(f"{path}.fieldRef", source["fieldRef"], _POD_FIELDS))
    if "resourceFieldRef" in source:
        errors.extend(validate_resource_field_ref(f"{path}.resourceFieldRef", source["resourceFieldRef"]))
    for name in ("configMapKeyRef", "secretKeyRef"):
        if name in source:
            reference = source[name]
            referent, key = reference.get("name", ""), reference.get("key", "")
            errors.extend(field.invalid_for(f"{path}.{name}.name", referent, check_dns1123_subdomain(referent)))
            if not key:
                errors.append(field.required(f"{path}.{name}.key"))
            else:
                errors.extend(field.invalid_for(f"{path}.{name}.key", key, check_config_key(key)))
    return errors


def validate_field_ref(path: str, reference: JsonObject, supported: Sequence[str]) -> list[FieldError]:
    """The downward API: a field of the pod itself."""
    if not reference.get("apiVersion"):
        return [field.required(f"{path}.apiVersion")]
    if not (field_path := reference.get("fieldPath", "")):
        return [field.required(f"{path}.fieldPath")]
    if found := _SUBSCRIPT.fullmatch(field_path):
        key = found.group(2).lower() if found.group(1).endswith("annotations") else found.group(2)
        return field.invalid_for(path, key, check_qualified_name(key))
    return field.one_of(f"{path}.fieldPath", field_path, supported)


def validate_resource_field_ref(path: str, reference: JsonObject, *, names_container: bool = False) -> list[FieldError]:
    """The downward API: a request or a limit of a container, which in a volume has to be named."""
    if names_container and not reference.get("containerName"):
        return [field.required(f"{path}.containerName")]
    resource = reference.get("resource", "")
    if not resource:
        return [field.required(f"{path}.resource")]
    if resource.startswith(("limits.hugepages-", "requests.hugepages-")):
        return []
    return field.one_of(f"{path}.resource", resource, _CONTAINER_FIELDS)


def _validate_env_from(path: str, sources: Sequence[JsonObject]) -> list[FieldError]:
    errors = []
    for index, source in enumerate(sources):
        item = f"{path}[{index}]"
        if prefix := source.get("prefix"):
            errors.extend(field.invalid_for(f"{item}.prefix", prefix, check_env_name(prefix)))
        given = [name for name in ("configMapRef", "secretRef") if name in source]
        for name in given:
            if referent := source[name].get("name", ""):
                errors.extend(field.invalid_for(f"{item}.{name}.name", referent, check_dns1123_subdomain(referent)))
            else:
                errors.append(field.required(f"{item}.{name}.name"))
        if not given:
            errors.append(field.invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"))
        elif len(given) > 1:
            errors.append(field.invalid(path, "", "may not have more than one field specified at a time"))
    return errors


# --- Mounts and resources --------------------------------------------------------------------------------


def _validate_mounts(path: str, mounts: Sequence[JsonObject], volumes: Sequence[str]) -> list[FieldError]:
    errors = []
    points: set[str] = set()
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
        for sub in ("subPath", "subPathExpr"):
            if value := mount.get(sub):
                errors.extend(field.invalid_for(f"{item}.{sub}", value, check_local_path(value)))
        if mount.get("subPath") and mount.get("subPathExpr"):
            detail = "subPathExpr and subPath are mutually exclusive"
            errors.append(field.invalid(f"{item}.subPathExpr", mount["subPathExpr"], detail))
        if "mountPropagation" in mount:
            errors.extend(field.one_of(f"{item}.mountPropagation", mount["mountPropagation"], _PROPAGATIONS))
    return errors


def _validate_resources(path: str, resources: JsonObject) -> list[FieldError]:
    errors = []
    limits, requests = resources.get("limits", {}), resources.get("requests", {})
    for kind, quantities in (("limits", limits), ("requests", requests)):
        for name, quantity in quantities.items():
            errors.extend(_validate_resource_name(f"{path}.{kind}[{name}]", name))
            errors.extend(validate_quantity(f"{path}.{kind}[{name}]", quantity))
    for name, requested in requests.items():
        amount, limit = amount_of(requested), amount_of(limits.get(name, ""))
        if amount is not None and limit is not None and amount > limit:
            detail = f"must be less than or equal to {name} limit of {limits[name]}"
            errors.append(field.invalid(f"{path}.requests", requested, detail))
    return errors


def _validate_resource_name(path: str, name: str) -> list[FieldError]:
    errors = field.invalid_for(path, name, check_qualified_name(name))
    if not errors and "/" not in name and name not in _STANDARD_RESOURCES and not name.startswith("hugepages-"):
        errors = [
            field.invalid(path, name, "must be a standard resource type or fully qualified"),
            field.invalid(path, name, "must be a standard resource for containers"),
        ]
    return errors
