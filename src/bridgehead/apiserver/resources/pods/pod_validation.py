"""Validation of pod specs, in pods and pod templates, and of updates of pods.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidatePodSpec`, `ValidatePodUpdate`.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared import field
from bridgehead.apiserver.resources.shared.addresses import check_ip
from bridgehead.apiserver.resources.shared.metadata_validation import (
    validate_annotations,
    validate_labels,
)
from bridgehead.objects.names import (
    check_dns1123_label,
    check_dns1123_subdomain,
    check_label_value,
    check_qualified_name,
)

from .affinity_validation import validate_affinity
from .annotation_validation import validate_pod_annotations, validate_profile_annotations
from .claims_validation import claim_names, validate_claims
from .container_validation import OfPod, validate_container, validate_hooks
from .ephemeral_validation import validate_ephemeral_containers
from .gated_validation import validate_gated_changes, without_node_limits
from .pod_level_resources import validate_pod_level_resources
from .resize_validation import validate_resize_policies
from .resource_validation import validate_overhead
from .restart_validation import RESTART_POLICIES, validate_restarts
from .security_validation import validate_host_users, validate_pod_security_context
from .spread_validation import validate_spread
from .volume_validation import validate_volumes
from .windows_validation import validate_host_process, validate_os

_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_TOLERATION_OPERATORS = ("Equal", "Exists")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
# The fields of Kubernetes' internal type, which errors show.
TOLERATION_FIELDS: Mapping[str, Any] = {
    "key": "",
    "operator": "",
    "value": "",
    "effect": "",
    "tolerationSeconds": None,
}
_PREEMPTION_POLICIES = ("PreemptLowerPriority", "Never")
_CONTAINER_LISTS = ("initContainers", "containers")
_CHANGEABLE = (
    "`spec.containers[*].image`",
    "`spec.initContainers[*].image`",
    "`spec.activeDeadlineSeconds`",
    "`spec.tolerations` (only additions to existing tolerations)",
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
)
_MAX_NAMESERVERS, _MAX_SEARCHES, _MAX_SEARCH_CHARACTERS = 3, 32, 2048
_HIGHEST = 2**31 - 1
_MAX_HOST_NAME_CHARACTERS = 64  # HOST_NAME_MAX of the kernel


def validate_template(path: str, template: JsonObject) -> list[FieldError]:
    """Validate a pod template at `path`."""
    metadata, spec = template.get("metadata", {}), template.get("spec", {})
    errors = field.errors_below(f"{path}.labels", validate_labels, metadata.get("labels", {}))
    if annotations := metadata.get("annotations"):
        errors.extend(field.errors_below(f"{path}.annotations", validate_annotations, annotations))
        errors.extend(validate_pod_annotations(f"{path}.annotations", annotations, spec))
    errors.extend(validate_pod_spec(f"{path}.spec", spec))
    if annotations:
        errors.extend(validate_profile_annotations(f"{path}.spec", annotations, spec))
    if spec.get("ephemeralContainers"):
        detail = "ephemeral containers not allowed in pod template"
        errors.append(field.forbidden(f"{path}.spec.ephemeralContainers", detail))
    return errors


def validate_pod_spec(path: str, spec: JsonObject) -> list[FieldError]:
    errors, volumes = validate_volumes(f"{path}.volumes", spec.get("volumes", ()))
    claims = spec.get("resourceClaims")
    if claims:
        errors.extend(validate_claims(f"{path}.resourceClaims", claims))
    grace = spec.get("terminationGracePeriodSeconds", 0)
    pod = OfPod(volumes, claim_names(spec) if claims else (), spec.get("hostUsers", True), grace)
    errors.extend(_validate_containers(path, spec, pod))
    errors.extend(validate_ephemeral_containers(f"{path}.ephemeralContainers", spec, pod))
    errors.extend(validate_pod_level_resources(path, spec))
    if spec.get("hostNetwork"):
        errors.extend(_validate_host_network_ports(path, spec))
    errors.extend(field.one_of(f"{path}.restartPolicy", spec.get("restartPolicy"), RESTART_POLICIES))
    errors.extend(field.one_of(f"{path}.dnsPolicy", spec.get("dnsPolicy"), _DNS_POLICIES))
    errors.extend(field.errors_below(f"{path}.nodeSelector", validate_labels, spec.get("nodeSelector", {})))
    errors.extend(validate_pod_security_context(path, spec))
    errors.extend(validate_affinity(f"{path}.affinity", spec.get("affinity", {})))
    errors.extend(_validate_dns(f"{path}.dnsConfig", spec.get("dnsConfig"), spec.get("dnsPolicy", "")))
    for index, gate in enumerate(spec.get("readinessGates", ())):
        name = gate.get("conditionType", "")
        item = f"{path}.readinessGates[{index}].conditionType"
        errors.extend(field.invalid_for(item, name, check_qualified_name(name)))
    errors.extend(_validate_gates(f"{path}.schedulingGates", spec.get("schedulingGates", ())))
    errors.extend(validate_spread(f"{path}.topologySpreadConstraints", spec.get("topologySpreadConstraints", ())))
    errors.extend(validate_host_process(path, spec))
    errors.extend(validate_host_users(path, spec))
    for name in ("serviceAccountName", "nodeName"):
        if value := spec.get(name):
            errors.extend(field.invalid_for(f"{path}.{name}", value, check_dns1123_subdomain(value)))
    if "activeDeadlineSeconds" in spec:
        seconds = spec["activeDeadlineSeconds"]
        errors.extend(field.within(f"{path}.activeDeadlineSeconds", seconds, 1, _HIGHEST))
    errors.extend(_validate_host_name(path, spec))
    errors.extend(validate_tolerations(f"{path}.tolerations", spec.get("tolerations", ())))
    errors.extend(_validate_host_aliases(f"{path}.hostAliases", spec.get("hostAliases", ())))
    for name in ("priorityClassName", "runtimeClassName"):
        if value := spec.get(name):
            errors.extend(field.invalid_for(f"{path}.{name}", value, check_dns1123_subdomain(value)))
    if "preemptionPolicy" in spec:
        errors.extend(field.one_of(f"{path}.preemptionPolicy", spec["preemptionPolicy"], _PREEMPTION_POLICIES))
    if overhead := spec.get("overhead"):
        errors.extend(validate_overhead(f"{path}.overhead", overhead))
    return [*errors, *validate_os(path, spec)]


def _validate_gates(path: str, gates: Sequence[JsonObject]) -> list[FieldError]:
    errors = []
    seen: set[str] = set()
    for index, gate in enumerate(gates):
        item, name = f"{path}[{index}]", gate.get("name", "")
        errors.extend(field.invalid_for(item, name, check_qualified_name(name)))
        if name in seen:
            errors.append(field.duplicate(item, name))
        seen.add(name)
    return errors


def _validate_containers(path: str, spec: JsonObject, pod: OfPod) -> list[FieldError]:
    if not spec.get("containers"):
        return [field.required(f"{path}.containers")]
    errors = []
    names: set[str] = set()
    host_ports: set[tuple[str, str, int]] = set()
    conflicts: list[FieldError] = []
    for kind in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(kind, ())):
            item = f"{path}.{kind}[{index}]"
            errors.extend(validate_container(item, container, pod))
            name = container.get("name", "")
            if name and name in names:
                errors.append(field.duplicate(f"{item}.name", name))
            names.add(name)
            policies = container.get("resizePolicy", ())
            errors.extend(validate_resize_policies(f"{item}.resizePolicy", policies, spec.get("restartPolicy", "")))
            errors.extend(validate_restarts(item, container))
            ports = container.get("ports", ())
            if kind == "initContainers":
                errors.extend(_validate_init_container(item, container, pod.grace_seconds))
                # These run one after the other. Kubernetes names the first one, whichever has the conflict.
                errors.extend(_validate_host_ports(f"{path}.{kind}[0].ports", ports, set()))
            else:
                errors.extend(validate_hooks(item, container, pod.grace_seconds))
                conflicts.extend(_validate_host_ports(f"{item}.ports", ports, host_ports))
        if kind == "containers":
            errors.extend(conflicts)
    return errors


def _validate_init_container(path: str, container: JsonObject, grace_seconds: int) -> list[FieldError]:
    if container.get("restartPolicy") == "Always":
        return validate_hooks(path, container, grace_seconds)  # a sidecar, which goes on
    return [
        field.forbidden(f"{path}.{name}", "may not be set for init containers without restartPolicy=Always")
        for name in ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
        if name in container
    ]


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


def _validate_host_network_ports(path: str, spec: JsonObject) -> list[FieldError]:
    detail = "must match `containerPort` when `hostNetwork` is true"
    return [
        field.invalid(f"{path}.containers[{index}].ports[{position}].hostPort", port["hostPort"], detail)
        for index, container in enumerate(spec.get("containers", ()))
        for position, port in enumerate(container.get("ports", ()))
        if port.get("hostPort") and port["hostPort"] != port.get("containerPort")
    ]


def _validate_dns(path: str, config: JsonObject | None, policy: str) -> list[FieldError]:
    if config is None:
        if policy != "None":
            return []
        return [field.required(path, "must provide `dnsConfig` when `dnsPolicy` is None")]
    servers, searches = config.get("nameservers", ()), config.get("searches", ())
    if policy == "None" and not servers:
        detail = "must provide at least one DNS nameserver when `dnsPolicy` is None"
        return [field.required(f"{path}.nameservers", detail)]
    errors = []
    if len(servers) > _MAX_NAMESERVERS:
        detail = f"must not have more than {_MAX_NAMESERVERS} nameservers"
        errors.append(field.invalid(f"{path}.nameservers", list(servers), detail))
    for index, server in enumerate(servers):
        errors.extend(field.invalid_for(f"{path}.nameservers[{index}]", server, check_ip(server)))
    if len(searches) > _MAX_SEARCHES:
        detail = f"must not have more than {_MAX_SEARCHES} search paths"
        errors.append(field.invalid(f"{path}.searches", list(searches), detail))
    if len(" ".join(searches)) > _MAX_SEARCH_CHARACTERS:
        detail = f"must not have more than {_MAX_SEARCH_CHARACTERS} characters (including spaces) in the search list"
        errors.append(field.invalid(f"{path}.searches", list(searches), detail))
    for index, search in enumerate(searches):
        # "." alone means no search; labels may begin with underscores, as in SRV records.
        name = search.removesuffix(".").replace("_", "a")
        if name or not search:
            errors.extend(field.invalid_for(f"{path}.searches[{index}]", search, check_dns1123_subdomain(name)))
    for index, option in enumerate(config.get("options", ())):
        if not option.get("name"):
            errors.append(field.required(f"{path}.options[{index}]", "must not be empty"))
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
            if reasons := check_label_value(value):
                errors.append(field.invalid(f"{item}.operator", value, ";".join(reasons)))
        elif operator != "Exists":
            errors.append(field.not_supported(f"{item}.operator", operator, _TOLERATION_OPERATORS))
        elif value:
            shown = field.internal_value(toleration, TOLERATION_FIELDS)
            errors.append(field.invalid(f"{item}.operator", shown, "value must be empty when `operator` is 'Exists'"))
        if effect:
            errors.extend(field.one_of(f"{item}.effect", effect, _EFFECTS))
    return errors


def _validate_host_aliases(path: str, aliases: Sequence[JsonObject]) -> list[FieldError]:
    errors = []
    for index, alias in enumerate(aliases):
        address = alias.get("ip", "")
        errors.extend(field.invalid_for(f"{path}[{index}].ip", address, check_ip(address)))
        for position, hostname in enumerate(alias.get("hostnames", ())):
            item = f"{path}[{index}].hostnames[{position}]"
            errors.extend(field.invalid_for(item, hostname, check_dns1123_subdomain(hostname)))
    return errors


# --- Updates ---------------------------------------------------------------------------------------------


def validate_pod_update(spec: JsonObject, old: JsonObject, *, binds: bool = False) -> list[FieldError]:
    """Validate an update of a pod: only a few fields may change. With `binds`, `nodeName` may be set once."""
    if spec == old:
        return []
    errors: list[FieldError] = []
    for kind in _CONTAINER_LISTS:
        if len(spec.get(kind, ())) != len(old.get(kind, ())):
            return [field.forbidden(f"spec.{kind}", "pod updates may not add or remove containers")]
    deadline = spec.get("activeDeadlineSeconds", 0)
    if found := field.within("spec.activeDeadlineSeconds", deadline, 0, _HIGHEST):
        return [*errors, *found]
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
    unlimited = spec
    if gates:
        errors.extend(validate_gated_changes(spec, old))
        unlimited = without_node_limits(spec, old)
    changed = _changed_fields(unlimited, old)
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
