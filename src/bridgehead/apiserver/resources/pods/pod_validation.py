"""Validation of pod specs, in pods and pod templates, and of updates of pods.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidatePodSpec`, `ValidatePodUpdate`.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence

from bridgehead.apiserver.resource import FieldError, JsonObject
from bridgehead.apiserver.resources.shared import field
from bridgehead.apiserver.resources.shared.addresses import check_ip
from bridgehead.apiserver.resources.shared.metadata_validation import (
    validate_annotations,
    validate_label_selector,
    validate_labels,
)
from bridgehead.objects.names import (
    check_dns1123_label,
    check_dns1123_subdomain,
    check_label_value,
    check_qualified_name,
)

from .affinity_validation import validate_affinity
from .container_validation import validate_container
from .ephemeral_validation import validate_ephemeral_containers
from .pod_level_resources import validate_pod_level_resources
from .pod_qos import qos_class
from .probe_validation import validate_stop_signal
from .resize_validation import validate_resize_policies
from .restart_validation import RESTART_POLICIES, validate_restarts
from .security_validation import validate_pod_security_context
from .volume_validation import validate_volumes

_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_TOLERATION_OPERATORS = ("Equal", "Exists")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_UNSATISFIABLE = ("DoNotSchedule", "ScheduleAnyway")
_CONTAINER_LISTS = ("initContainers", "containers")
_CHANGEABLE = (
    "`spec.containers[*].image`",
    "`spec.initContainers[*].image`",
    "`spec.activeDeadlineSeconds`",
    "`spec.tolerations` (only additions to existing tolerations)",
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
)
_MAX_NAMESERVERS, _MAX_SEARCHES, _MAX_SEARCH_CHARACTERS = 3, 32, 2048
_MAX_HOST_NAME_CHARACTERS = 64  # HOST_NAME_MAX of the kernel


def validate_template(path: str, template: JsonObject) -> list[FieldError]:
    """Validate a pod template at `path`."""
    metadata = template.get("metadata", {})
    errors = validate_labels(f"{path}.labels", metadata.get("labels", {}))
    errors.extend(validate_annotations(f"{path}.annotations", metadata.get("annotations", {})))
    spec = template.get("spec", {})
    errors.extend(validate_pod_spec(f"{path}.spec", spec))
    if spec.get("ephemeralContainers"):
        detail = "ephemeral containers not allowed in pod template"
        errors.append(field.forbidden(f"{path}.spec.ephemeralContainers", detail))
    return errors


def validate_pod_spec(path: str, spec: JsonObject) -> list[FieldError]:
    errors, volumes = validate_volumes(f"{path}.volumes", spec.get("volumes", ()))
    errors.extend(_validate_containers(path, spec, volumes))
    errors.extend(validate_ephemeral_containers(f"{path}.ephemeralContainers", spec, volumes))
    errors.extend(validate_pod_level_resources(path, spec))
    errors.extend(field.one_of(f"{path}.restartPolicy", spec.get("restartPolicy"), RESTART_POLICIES))
    errors.extend(_validate_dns(path, spec))
    errors.extend(validate_labels(f"{path}.nodeSelector", spec.get("nodeSelector", {})))
    errors.extend(validate_pod_security_context(path, spec))
    for name in ("serviceAccountName", "nodeName", "priorityClassName"):
        if value := spec.get(name):
            errors.extend(field.invalid_for(f"{path}.{name}", value, check_dns1123_subdomain(value)))
    errors.extend(_validate_host_name(path, spec))
    if "activeDeadlineSeconds" in spec:
        seconds = spec["activeDeadlineSeconds"]
        errors.extend(field.within(f"{path}.activeDeadlineSeconds", seconds, 1, 2**31 - 1))
    errors.extend(validate_tolerations(f"{path}.tolerations", spec.get("tolerations", ())))
    errors.extend(validate_affinity(f"{path}.affinity", spec.get("affinity", {})))
    errors.extend(_validate_host_aliases(f"{path}.hostAliases", spec.get("hostAliases", ())))
    errors.extend(_validate_spread(f"{path}.topologySpreadConstraints", spec.get("topologySpreadConstraints", ())))
    for index, gate in enumerate(spec.get("readinessGates", ())):
        name = gate.get("conditionType", "")
        item = f"{path}.readinessGates[{index}].conditionType"
        errors.extend(field.invalid_for(item, name, check_qualified_name(name)))
    return [*errors, *_validate_gates(path, spec)]


def _validate_gates(path: str, spec: JsonObject) -> list[FieldError]:
    errors = []
    names = [gate.get("name", "") for gate in spec.get("schedulingGates", ())]
    for index, name in enumerate(names):
        item = f"{path}.schedulingGates[{index}]"
        errors.extend(field.invalid_for(item, name, check_qualified_name(name)))
        if name in names[:index]:
            errors.append(field.duplicate(item, name))
    if names and spec.get("nodeName"):
        detail = "cannot be set until all schedulingGates have been cleared"
        errors.append(field.forbidden(f"{path}.nodeName", detail))
    return errors


def _validate_containers(path: str, spec: JsonObject, volumes: Mapping[str, str]) -> list[FieldError]:
    grace = spec.get("terminationGracePeriodSeconds", 0)
    host_users = spec.get("hostUsers", True)
    if not spec.get("containers"):
        return [field.required(f"{path}.containers")]
    errors = []
    names: set[str] = set()
    host_ports: set[tuple[str, str, int]] = set()
    for kind in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(kind, ())):
            item = f"{path}.{kind}[{index}]"
            errors.extend(validate_container(item, container, volumes, grace, host_users=host_users))
            errors.extend(validate_stop_signal(f"{item}.lifecycle.stopSignal", container, spec.get("os", {})))
            name = container.get("name", "")
            if name and name in names:
                errors.append(field.duplicate(f"{item}.name", name))
            names.add(name)
            if not container.get("image"):
                errors.append(field.required(f"{item}.image"))
            policies = container.get("resizePolicy", ())
            errors.extend(validate_resize_policies(f"{item}.resizePolicy", policies, spec.get("restartPolicy", "")))
            errors.extend(validate_restarts(item, container))
            if kind == "initContainers":
                errors.extend(_validate_init_container(item, container))
            else:
                errors.extend(_validate_host_ports(f"{item}.ports", container.get("ports", ()), host_ports))
            if spec.get("hostNetwork"):
                errors.extend(_validate_host_network_ports(f"{item}.ports", container.get("ports", ())))
    return errors


def _validate_init_container(path: str, container: JsonObject) -> list[FieldError]:
    policy = container.get("restartPolicy")
    if policy == "Always":
        return []  # a sidecar may have probes and hooks
    errors = [
        field.forbidden(f"{path}.{name}", "may not be set for init containers without restartPolicy=Always")
        for name in ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
        if name in container
    ]
    if resize := container.get("resizePolicy"):
        errors.append(field.invalid(f"{path}.resizePolicy", resize, "must not be set for init containers"))
    return errors


def _validate_host_ports(path: str, ports: Sequence[JsonObject], taken: set[tuple[str, str, int]]) -> list[FieldError]:
    errors = []
    for index, port in enumerate(ports):
        if not (number := port.get("hostPort", 0)):
            continue
        key = (port.get("protocol", ""), port.get("hostIP", ""), number)
        if key in taken:
            errors.append(field.duplicate(f"{path}[{index}].hostPort", "/".join(map(str, key))))
        taken.add(key)
    return errors


def _validate_host_network_ports(path: str, ports: Sequence[JsonObject]) -> list[FieldError]:
    return [
        field.invalid(
            f"{path}[{index}].containerPort",
            port.get("containerPort"),
            "must match `hostPort` when `hostNetwork` is true",
        )
        for index, port in enumerate(ports)
        if port.get("hostPort") and port["hostPort"] != port.get("containerPort")
    ]


def _validate_dns(path: str, spec: JsonObject) -> list[FieldError]:
    policy = spec.get("dnsPolicy")
    errors = field.one_of(f"{path}.dnsPolicy", policy, _DNS_POLICIES)
    config = spec.get("dnsConfig", {})
    servers, searches = config.get("nameservers", ()), config.get("searches", ())
    item = f"{path}.dnsConfig"
    if policy == "None" and not servers:
        detail = "must provide at least one DNS nameserver when `dnsPolicy` is None"
        errors.append(field.required(f"{item}.nameservers" if config else item, detail))
    if len(servers) > _MAX_NAMESERVERS:
        detail = f"must not have more than {_MAX_NAMESERVERS} nameservers"
        errors.append(field.invalid(f"{item}.nameservers", list(servers), detail))
    for index, server in enumerate(servers):
        errors.extend(field.invalid_for(f"{item}.nameservers[{index}]", server, check_ip(server)))
    if len(searches) > _MAX_SEARCHES:
        detail = f"must not have more than {_MAX_SEARCHES} search paths"
        errors.append(field.invalid(f"{item}.searches", list(searches), detail))
    if len(" ".join(searches)) > _MAX_SEARCH_CHARACTERS:
        detail = f"must not have more than {_MAX_SEARCH_CHARACTERS} characters (including spaces) in the search list"
        errors.append(field.invalid(f"{item}.searches", list(searches), detail))
    for index, search in enumerate(searches):
        # "." alone means no search; labels may begin with underscores, as in SRV records.
        name = search.removesuffix(".").replace("_", "a")
        reasons = check_dns1123_subdomain(name) if name else []
        errors.extend(field.invalid_for(f"{item}.searches[{index}]", search, reasons))
    for index, option in enumerate(config.get("options", ())):
        if not option.get("name"):
            errors.append(field.required(f"{item}.options[{index}]", "must not be empty"))
    return errors


def _validate_host_name(path: str, spec: JsonObject) -> list[FieldError]:
    errors = []
    for name in ("hostname", "subdomain"):
        if value := spec.get(name):
            errors.extend(field.invalid_for(f"{path}.{name}", value, check_dns1123_label(value)))
    if override := spec.get("hostnameOverride"):
        item = f"{path}.hostnameOverride"
        errors.extend(field.invalid_for(item, override, check_dns1123_subdomain(override)))
        if len(override) > _MAX_HOST_NAME_CHARACTERS:
            errors.append(field.too_long(item, _MAX_HOST_NAME_CHARACTERS))
        others = [name for name in ("hostNetwork", "setHostnameAsFQDN") if spec.get(name)]
        detail = "may not be true when `hostnameOverride` is set"
        errors.extend(field.forbidden(f"{path}.{name}", detail) for name in others)
    return errors


def validate_tolerations(path: str, tolerations: Sequence[JsonObject]) -> list[FieldError]:
    errors = []
    for index, toleration in enumerate(tolerations):
        item = f"{path}[{index}]"
        key, value = toleration.get("key", ""), toleration.get("value", "")
        operator, effect = toleration.get("operator", ""), toleration.get("effect", "")
        if key:
            errors.extend(field.invalid_for(f"{item}.key", key, check_qualified_name(key)))
        elif operator != "Exists":
            detail = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            errors.append(field.invalid(f"{item}.operator", operator, detail))
        if "tolerationSeconds" in toleration and effect != "NoExecute":
            detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            errors.append(field.invalid(f"{item}.effect", effect, detail))
        if operator in ("", "Equal"):
            errors.extend(field.invalid_for(f"{item}.operator", value, check_label_value(value)))
        elif operator != "Exists":
            errors.append(field.not_supported(f"{item}.operator", operator, _TOLERATION_OPERATORS))
        elif value:
            errors.append(field.invalid(f"{item}.operator", value, "value must be empty when `operator` is 'Exists'"))
        if effect:
            errors.extend(field.one_of(f"{item}.effect", effect, _EFFECTS))
    return errors


def _validate_host_aliases(path: str, aliases: Sequence[JsonObject]) -> list[FieldError]:
    errors = []
    for index, alias in enumerate(aliases):
        address = alias.get("ip", "")
        errors.extend(field.invalid_for(f"{path}[{index}].ip", address, check_ip(address)))
        for hostname in alias.get("hostnames", ()):
            errors.extend(field.invalid_for(f"{path}[{index}].hostnames", hostname, check_dns1123_subdomain(hostname)))
    return errors


def _validate_spread(path: str, constraints: Sequence[JsonObject]) -> list[FieldError]:
    errors = []
    for index, constraint in enumerate(constraints):
        item = f"{path}[{index}]"
        skew = constraint.get("maxSkew", 0)
        if skew <= 0:
            errors.append(field.invalid(f"{item}.maxSkew", skew, "must be greater than zero"))
        if not (key := constraint.get("topologyKey", "")):
            errors.append(field.required(f"{item}.topologyKey", "can not be empty"))
        else:
            errors.extend(field.invalid_for(f"{item}.topologyKey", key, check_qualified_name(key)))
        action = constraint.get("whenUnsatisfiable", "")
        errors.extend(field.one_of(f"{item}.whenUnsatisfiable", action, _UNSATISFIABLE))
        errors.extend(validate_label_selector(f"{item}.labelSelector", constraint.get("labelSelector", {})))
    return errors


# --- Updates ---------------------------------------------------------------------------------------------


def validate_pod_update(spec: JsonObject, old: JsonObject, *, binds: bool = False) -> list[FieldError]:
    """Validate an update of a pod: only a few fields may change. With `binds`, `nodeName` may be set once."""
    if spec == old:
        return []
    errors = []
    for kind in _CONTAINER_LISTS:
        if len(spec.get(kind, ())) != len(old.get(kind, ())):
            return [field.forbidden(f"spec.{kind}", "pod updates may not add or remove containers")]
        for index, container in enumerate(spec.get(kind, ())):
            if not container.get("image", "").strip():
                errors.append(field.required(f"spec.{kind}[{index}].image"))
    errors.extend(_validate_deadline_update(spec.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds")))
    tolerations, before = spec.get("tolerations", []), old.get("tolerations", [])
    if any(_without_seconds(one) not in map(_without_seconds, tolerations) for one in before):
        detail = "existing toleration can not be modified except its tolerationSeconds"
        errors.append(field.forbidden("spec.tolerations", detail))
    gates = [gate.get("name") for gate in old.get("schedulingGates", ())]
    for index, gate in enumerate(spec.get("schedulingGates", ())):
        if gate.get("name") not in gates:
            detail = f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'"
            errors.append(field.forbidden(f"spec.schedulingGates[{index}].name", detail))
    if qos_class(spec) != qos_class(old):
        errors.append(field.invalid("metadata", qos_class(spec), "Pod QoS is immutable"))
    changed = _changed_fields(spec, old)
    if binds and not old.get("nodeName"):
        changed = [name for name in changed if name != "spec.nodeName"]
    if changed:
        detail = f"pod updates may not change fields other than {','.join(_CHANGEABLE)}\nchanged: {', '.join(changed)}"
        errors.append(field.forbidden("spec", detail))
    return errors


def _validate_deadline_update(seconds: int | None, before: int | None) -> list[FieldError]:
    path = "spec.activeDeadlineSeconds"
    if seconds is None:
        if before is None:
            return []
        return [field.invalid(path, None, "must not update from a positive integer to nil value")]
    if before is not None and seconds > before:
        return [field.invalid(path, seconds, "must be less than or equal to previous value")]
    return []


def _without_seconds(toleration: JsonObject) -> JsonObject:
    return {key: value for key, value in toleration.items() if key != "tolerationSeconds"}


def _changed_fields(spec: JsonObject, old: JsonObject) -> list[str]:
    """Return fields that differ and may not change."""
    masked = copy.copy(spec)
    for kind in _CONTAINER_LISTS:
        if kind in spec:
            pairs = zip(spec[kind], old.get(kind, ()), strict=True)
            masked[kind] = [{**new, "image": before.get("image")} for new, before in pairs]
    for name in ("activeDeadlineSeconds", "tolerations", "schedulingGates"):
        masked.pop(name, None)
        if name in old:
            masked[name] = old[name]
    if old.get("terminationGracePeriodSeconds", 0) < 0 and spec.get("terminationGracePeriodSeconds") == 1:
        masked["terminationGracePeriodSeconds"] = old["terminationGracePeriodSeconds"]
    return sorted(f"spec.{name}" for name in masked.keys() | old.keys() if masked.get(name) != old.get(name))
