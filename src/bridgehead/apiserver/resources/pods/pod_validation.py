"""Validation of pod specs, in pods and pod templates, and of updates of pods.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidatePodSpec`, `ValidatePodUpdate`.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from bridgehead.apiserver.field import Field, internal_value
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared.address_rules import check_ip
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
from .container_validation import RESTART_POLICIES, OfPod, validate_container, validate_hooks, validate_restarts
from .ephemeral_validation import validate_ephemeral_containers
from .gated_validation import validate_gated_changes, without_node_limits
from .resize_validation import validate_resize_policies
from .resource_validation import validate_overhead, validate_pod_level_resources
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

HostPort = tuple[str, str, int]  # protocol, address and number


def validate_template(template: Field) -> None:
    """Validate a pod template."""
    metadata = template.showing(template.get("metadata"))  # Kubernetes leaves `metadata` out of the paths
    spec, annotations = template.at("spec", {}), metadata.at("annotations", {})
    validate_labels(metadata.at("labels"))
    validate_annotations(annotations)
    validate_pod_annotations(annotations, spec.value)
    validate_pod_spec(spec)
    validate_profile_annotations(spec, annotations.value)
    spec.at("ephemeralContainers").must_not_be_set("ephemeral containers not allowed in pod template")


def validate_pod_spec(spec: Field) -> None:
    volumes = validate_volumes(spec.at("volumes"))
    claims = spec.at("resourceClaims")
    validate_claims(claims)
    grace = spec.get("terminationGracePeriodSeconds", 0)
    pod = OfPod(volumes, claim_names(spec.value) if claims else (), spec.get("hostUsers", True), grace)
    _validate_containers(spec, pod)
    validate_ephemeral_containers(spec, pod)
    validate_pod_level_resources(spec)
    if spec.get("hostNetwork"):
        _validate_host_network_ports(spec.at("containers"))
    spec.at("restartPolicy", "").must_be_one_of(RESTART_POLICIES)
    spec.at("dnsPolicy", "").must_be_one_of(_DNS_POLICIES)
    validate_labels(spec.at("nodeSelector"))
    validate_pod_security_context(spec)
    validate_affinity(spec.at("affinity"))
    _validate_dns(spec.at("dnsConfig"), spec.get("dnsPolicy", ""))
    for gate in spec.at("readinessGates").each():
        gate.at("conditionType", "").must_pass(check_qualified_name)
    _validate_gates(spec.at("schedulingGates"))
    validate_spread(spec.at("topologySpreadConstraints"))
    validate_host_process(spec)
    validate_host_users(spec)
    for name in spec.those_set("serviceAccountName", "nodeName"):
        name.must_pass(check_dns1123_subdomain)
    spec.at("activeDeadlineSeconds").must_be_within(1, _HIGHEST)
    for name in spec.those_set("hostname", "subdomain"):
        name.must_pass(check_dns1123_label)
    _validate_host_name_override(spec)
    validate_tolerations(spec.at("tolerations"))
    _validate_host_aliases(spec.at("hostAliases"))
    for name in spec.those_set("priorityClassName", "runtimeClassName"):
        name.must_pass(check_dns1123_subdomain)
    spec.at("preemptionPolicy").must_be_one_of(_PREEMPTION_POLICIES)
    spec.if_set("overhead").must_obey(validate_overhead)
    validate_os(spec)


def _validate_gates(gates: Field) -> None:
    seen: set[str] = set()
    for gate in gates.each():
        name = gate.showing(gate.get("name", ""))  # Kubernetes does not name the field
        name.must_pass(check_qualified_name)
        name.must_not_repeat(seen)


def _validate_containers(spec: Field, pod: OfPod) -> None:
    containers = spec.at("containers")
    if not containers.must_be_set():
        return
    names: set[str] = set()
    host_ports: set[HostPort] = set()
    for container in containers.each():
        _validate_pod_container(container, spec, pod, names)
        validate_hooks(container, pod.grace_seconds)
    for container in containers.each():
        _validate_host_ports(container.at("ports"), host_ports)
    init_containers = spec.at("initContainers")
    for container in init_containers.each():
        _validate_pod_container(container, spec, pod, names)
        _validate_init_container(container, pod.grace_seconds)
        # These run one after the other. Kubernetes names the first one, whichever has the conflict.
        first = init_containers.item(0).showing(container.value)
        _validate_host_ports(first.at("ports"), set())


def _validate_pod_container(container: Field, spec: Field, pod: OfPod, names: set[str]) -> None:
    """Validate what init containers and containers of pods have. `names` are those of the containers before."""
    validate_container(container, pod)
    if name := container.at("name"):
        name.must_not_repeat(names)
    validate_resize_policies(container.at("resizePolicy"), spec.get("restartPolicy", ""))
    validate_restarts(container)


def _validate_init_container(container: Field, grace_seconds: int) -> None:
    if container.get("restartPolicy") == "Always":
        validate_hooks(container, grace_seconds)  # a sidecar, which goes on
        return
    names = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
    container.must_have_none_of(names, "may not be set for init containers without restartPolicy=Always")


def _validate_host_ports(ports: Field, taken: set[HostPort]) -> None:
    for port in ports.each():
        if number := port.at("hostPort"):
            key = (port.get("protocol", ""), port.get("hostIP", ""), number.value)
            if key in taken:
                number.showing("/".join(map(str, key))).duplicate()
            taken.add(key)


def _validate_host_network_ports(containers: Field) -> None:
    for container in containers.each():
        for port in container.at("ports").each():
            if port.get("hostPort") and port.get("hostPort") != port.get("containerPort"):
                port.at("hostPort").invalid("must match `containerPort` when `hostNetwork` is true")


def _validate_dns(config: Field, policy: str) -> None:
    if config.value is None:
        if policy == "None":
            config.required("must provide `dnsConfig` when `dnsPolicy` is None")
        return
    servers, searches = config.at("nameservers", []), config.at("searches", [])
    if policy == "None" and not servers:
        servers.required("must provide at least one DNS nameserver when `dnsPolicy` is None")
        return
    if len(servers.value) > _MAX_NAMESERVERS:
        servers.invalid(f"must not have more than {_MAX_NAMESERVERS} nameservers")
    servers.must_all_pass(check_ip)
    if len(searches.value) > _MAX_SEARCHES:
        searches.invalid(f"must not have more than {_MAX_SEARCHES} search paths")
    if len(" ".join(searches.value)) > _MAX_SEARCH_CHARACTERS:
        detail = f"must not have more than {_MAX_SEARCH_CHARACTERS} characters (including spaces) in the search list"
        searches.invalid(detail)
    searches.must_all_pass(_check_search)
    for option in config.at("options").each():
        if not option.get("name"):
            option.required("must not be empty")


def _check_search(search: str) -> list[str]:
    # "." alone means no search; labels may begin with underscores, as in SRV records.
    return [] if search == "." else check_dns1123_subdomain(search.removesuffix(".").replace("_", "a"))


def _validate_host_name_override(spec: Field) -> None:
    override = spec.at("hostnameOverride")
    if not override:
        return
    override.must_pass(check_dns1123_subdomain)
    if len(override.value) > _MAX_HOST_NAME_CHARACTERS:
        override.too_long(_MAX_HOST_NAME_CHARACTERS)
    for field in spec.those_set("hostNetwork", "setHostnameAsFQDN"):
        field.forbidden("may not be true when `hostnameOverride` is set")


def validate_tolerations(tolerations: Field) -> None:
    for toleration in tolerations.each():
        key, value = toleration.at("key"), toleration.get("value", "")
        operator, effect = toleration.at("operator", ""), toleration.at("effect", "")
        if key:
            key.must_pass(check_qualified_name)
        elif operator.value != "Exists":
            operator.invalid('operator must be Exists when `key` is empty, which means "match all values and all keys"')
        if "tolerationSeconds" in toleration.value and effect.value != "NoExecute":
            effect.invalid("effect must be 'NoExecute' when `tolerationSeconds` is set")
        if operator.value in ("", "Equal"):
            if reasons := check_label_value(value):
                operator.showing(value).invalid(";".join(reasons))
        elif operator.must_be_one_of(_TOLERATION_OPERATORS) and value:
            shown = internal_value(toleration.value, TOLERATION_FIELDS)
            operator.showing(shown).invalid("value must be empty when `operator` is 'Exists'")
        toleration.if_set("effect").must_be_one_of(_EFFECTS)


def _validate_host_aliases(aliases: Field) -> None:
    for alias in aliases.each():
        alias.at("ip", "").must_pass(check_ip)
        alias.at("hostnames").must_all_pass(check_dns1123_subdomain)


# --- Updates ---------------------------------------------------------------------------------------------


def validate_pod_update(spec: Field, old: JsonObject, *, binds: bool = False) -> None:
    """Validate an update of a pod: only a few fields may change. With `binds`, `nodeName` may be set once."""
    if spec.value == old:
        return
    deadline, tolerations = spec.at("activeDeadlineSeconds"), spec.at("tolerations", [])
    for kind in _CONTAINER_LISTS:
        if len(spec.get(kind, ())) != len(old.get(kind, ())):
            spec.at(kind).forbidden("pod updates may not add or remove containers")
            return
    if not deadline.must_be_within(0, _HIGHEST):
        return
    _validate_deadline_update(deadline, old.get("activeDeadlineSeconds"))
    kept = [_without_seconds(one) for one in tolerations.value]
    if any(_without_seconds(one) not in kept for one in old.get("tolerations", ())):
        tolerations.forbidden("existing toleration can not be modified except its tolerationSeconds")
    gates = [gate.get("name") for gate in old.get("schedulingGates", ())]
    for gate in spec.at("schedulingGates").each():
        name = gate.at("name")
        if name.value not in gates:
            name.forbidden(f"only deletion is allowed, but found new scheduling gate '{name.value}'")
    unlimited = spec.value
    if gates:
        validate_gated_changes(spec, old)
        unlimited = without_node_limits(spec.value, old)
    changed = _changed_fields(unlimited, old)
    if binds and not old.get("nodeName"):
        changed = [name for name in changed if name != "spec.nodeName"]
    if changed:
        spec.forbidden(
            f"pod updates may not change fields other than {','.join(_CHANGEABLE)}\nchanged: {', '.join(changed)}"
        )


def _validate_deadline_update(deadline: Field, before: int | None) -> None:
    if before is None:
        return
    if deadline.value is None:
        deadline.invalid("must not update from a positive integer to nil value")
    deadline.must_be_at_most(before, "must be less than or equal to previous value")


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
