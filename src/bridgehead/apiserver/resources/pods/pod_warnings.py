"""Warnings about pods and pod templates: values that are valid but probably not intended. kubectl prints them.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `pkg/api/pod/warnings.go`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from heapq import merge
from itertools import islice

from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared.address_rules import warn_of_ip
from bridgehead.apiserver.resources.shared.node_labels import warn_of_key, warn_of_label
from bridgehead.apiserver.resources.shared.pod_names import warn_of_pod_name
from bridgehead.apiserver.resources.shared.quantity_rules import warn_of_fractional_bytes
from bridgehead.objects.names import check_label_value

from .annotation_validation import APP_ARMOR, DEPRECATED_APP_ARMOR, SECCOMP_CONTAINER, SECCOMP_POD
from .pod_containers import visit_containers
from .volume_warnings import warn_of_volumes

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_NULL_SELECTOR = "a null labelSelector results in matching no pod"
_WITHOUT_EFFECT = 'non-functional in {}; use the "{}" field instead'
_SECCOMP = _WITHOUT_EFFECT.format("v1.27+", "seccompProfile")
_ANNOTATIONS = {
    "scheduler.alpha.kubernetes.io/critical-pod": _WITHOUT_EFFECT.format("v1.16+", "priorityClassName"),
    "security.alpha.kubernetes.io/sysctls": _WITHOUT_EFFECT.format("v1.11+", "sysctls"),
    "security.alpha.kubernetes.io/unsafe-sysctls": _WITHOUT_EFFECT.format("v1.11+", "sysctls"),
}
_BYTES = ("memory", "ephemeral-storage")

# More than an answer shows.
_MAX_PORT_WARNINGS = 300

# Definitions of ports by what they have in common: each with its number in the order of all, and its path.
Ports = defaultdict[tuple[int | str, ...], list[tuple[int, str, JsonObject]]]


def warn_of_pod(pod: JsonObject) -> list[str]:
    metadata = pod.get("metadata", {})
    warnings = warn_of_pod_name(metadata.get("name", ""))
    return [*warnings, *_warn(metadata.get("annotations", {}), "metadata", "spec", pod.get("spec", {}))]


def warn_of_template(path: str, template: JsonObject) -> list[str]:
    """Return warnings about the template at `path`."""
    annotations = template.get("metadata", {}).get("annotations", {})
    return _warn(annotations, f"{path}.metadata", f"{path}.spec", template.get("spec", {}))


def _warn(annotations: Mapping[str, str], metadata: str, path: str, spec: JsonObject) -> list[str]:
    """`metadata` and `path` are the paths of the metadata and of the spec."""
    warnings = _warn_of_node_labels(path, spec)
    if annotations:
        found = [key for key in _ANNOTATIONS if key in annotations]
        warnings += [f"{metadata}.annotations[{key}]: {_ANNOTATIONS[key]}" for key in found]
    if volumes := spec.get("volumes"):
        warnings += warn_of_volumes(f"{path}.volumes", volumes)
    if "hostAliases" in spec or "imagePullSecrets" in spec:
        warnings += _warn_of_lists(path, spec)
    if overhead := spec.get("overhead"):
        warnings += warn_of_fractional_bytes(f"{path}.overhead", overhead, _BYTES)
    if SECCOMP_POD in annotations and "seccompProfile" not in spec.get("securityContext", {}):
        warnings.append(f"{metadata}.annotations[{SECCOMP_POD}]: {_SECCOMP}")
    containers = list(visit_containers(path, spec))
    for item, container in containers:
        if annotations:
            # The server itself makes fields of such annotations of new pods.
            is_template = metadata != "metadata"
            warnings += _warn_of_profiles(annotations, f"{metadata}.annotations", container, is_template=is_template)
        if resources := container.get("resources"):
            for kind in ("limits", "requests"):
                path_of_kind = f"{item}.resources.{kind}"
                warnings += warn_of_fractional_bytes(path_of_kind, resources.get(kind, {}), _BYTES)
        if len(variables := container.get("env", ())) > 1:
            warnings += _warn_of_env(f"{item}.env", variables)
    if has_ports := any(container.get("ports") for _, container in containers):
        warnings += _warn_of_ports(containers)
    if spec.get("terminationGracePeriodSeconds", 0) < 0:
        warnings.append(
            f"{path}.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1"
        )
    if affinity := spec.get("affinity"):
        warnings += _warn_of_affinity(f"{path}.affinity", affinity)
    if "dnsConfig" in spec:
        for index, server in enumerate(spec["dnsConfig"].get("nameservers", ())):
            warnings += warn_of_ip(f"{path}.dnsConfig.nameservers[{index}]", server)
    for index, alias in enumerate(spec.get("hostAliases", ())):
        warnings += warn_of_ip(f"{path}.hostAliases[{index}].ip", alias.get("ip", ""))
    return [*warnings, *_warn_of_port_names(containers)] if has_ports else warnings


def _warn_of_lists(path: str, spec: JsonObject) -> list[str]:
    """Warn of elements that are the same one for server-side apply."""
    warnings = []
    seen: set[str] = set()
    for index, alias in enumerate(spec.get("hostAliases", ())):
        address = alias.get("ip", "")
        if address in seen:
            warnings.append(f'{path}.hostAliases[{index}].ip: duplicate ip "{address}"')
        seen.add(address)
    seen = set()
    for index, secret in enumerate(spec.get("imagePullSecrets", ())):
        name = secret.get("name", "")
        if not name:
            warnings.append(f'{path}.imagePullSecrets[{index}].name: invalid empty name ""')
        elif name in seen:
            warnings.append(f'{path}.imagePullSecrets[{index}].name: duplicate name "{name}"')
        seen.add(name)
    return warnings


def _warn_of_profiles(
    annotations: Mapping[str, str], path: str, container: JsonObject, *, is_template: bool
) -> list[str]:
    name, context = container.get("name", ""), container.get("securityContext", {})
    warnings = []
    if SECCOMP_CONTAINER + name in annotations and "seccompProfile" not in context:
        warnings.append(f"{path}[{SECCOMP_CONTAINER}{name}]: {_SECCOMP}")
    if is_template and APP_ARMOR + name in annotations and "appArmorProfile" not in context:
        warnings.append(f"{path}[{APP_ARMOR}{name}]: {DEPRECATED_APP_ARMOR}")
    return warnings


def _warn_of_env(path: str, variables: Sequence[JsonObject]) -> list[str]:
    warnings = []
    seen: set[str] = set()
    for index, variable in enumerate(variables):
        name, value = variable.get("name", ""), variable.get("value", "")
        reference = f"$({name})"
        # A redefinition that uses the variable's old value extends it on purpose.
        if name in seen and ("valueFrom" in variable or value == reference or reference not in value):
            warnings.append(
                f'{path}[{index}]: hides previous definition of "{name}", which may be dropped when using apply'
            )
        seen.add(name)
    return warnings


def _warn_of_ports(containers: Sequence[tuple[str, JsonObject]]) -> list[str]:
    warnings: list[str] = []
    ports: Ports = defaultdict(list)
    count = 0
    for path, container in containers:
        for index, port in enumerate(container.get("ports", ())):
            if len(warnings) >= _MAX_PORT_WARNINGS:
                return warnings
            item, number, protocol = f"{path}.ports[{index}]", port.get("containerPort", 0), port.get("protocol", "TCP")
            if port.get("hostIP") and not port.get("hostPort"):
                shown = f"Name:{port.get('name', '')} HostPort:0 ContainerPort:{number} Protocol:{protocol}"
                warnings.append(f"{item}: hostIP set without hostPort: {{{shown} HostIP:{port['hostIP']}}}")
            others = merge(*_conflicting(ports, number, protocol, port))
            warnings += [
                f"{item}: {_overlap(port, other)} port definition with {other_item}"
                for _, other_item, other in islice(others, _MAX_PORT_WARNINGS)
            ]
            host_port, host_ip = port.get("hostPort", 0), port.get("hostIP", "")
            for length in (2, 3, 4):
                ports[(number, protocol, host_port, host_ip)[:length]].append((count, item, port))
            count += 1
    return warnings


def _conflicting(ports: Ports, number: int, protocol: str, port: JsonObject) -> list[list[tuple[int, str, JsonObject]]]:
    """Return the definitions of a container port that are in conflict with another one, `port`."""
    key = (number, protocol)
    host_port, host_ip = port.get("hostPort", 0), port.get("hostIP", "")
    if not host_port:
        return [ports[key]]
    if not host_ip:
        return [ports[*key, 0], ports[*key, host_port]]
    return [ports[*key, 0], ports[*key, host_port, ""], ports[*key, host_port, host_ip]]


def _overlap(port: JsonObject, other: JsonObject) -> str:
    """Return the kind of conflict between two definitions of one container port that are in conflict."""
    host_ports = port.get("hostPort", 0), other.get("hostPort", 0)
    host_ips = port.get("hostIP", ""), other.get("hostIP", "")
    if host_ports[0] == host_ports[1] and host_ips[0] == host_ips[1]:
        return "duplicate"
    if not all(host_ports):
        return "overlapping"
    return "dangerously ambiguous"


def _warn_of_port_names(containers: Sequence[tuple[str, JsonObject]]) -> list[str]:
    warnings = []
    names: dict[str, str] = {}
    for path, container in containers:
        if ".initContainers[" in path and container.get("restartPolicy") != "Always":
            break  # Kubernetes looks no further
        for index, port in enumerate(container.get("ports", ())):
            if name := port.get("name"):
                item = f"{path}.ports[{index}]"
                if other := names.get(name):
                    warnings.append(
                        f'{item}: duplicate port name "{name}" with {other}, services and probes that select ports by '
                        f"name will use {other}"
                    )
                names.setdefault(name, item)
    return warnings


def _warn_of_affinity(path: str, affinity: JsonObject) -> list[str]:
    warnings = []
    for kind in ("podAffinity", "podAntiAffinity"):
        own = affinity.get(kind, {})
        terms = [(f"{_REQUIRED}[{index}]", term) for index, term in enumerate(own.get(_REQUIRED, ()))]
        for index, weighted in enumerate(own.get(_PREFERRED, ())):
            terms.append((f"{_PREFERRED}[{index}].podAffinityTerm", weighted.get("podAffinityTerm", {})))
        warnings += [
            f"{path}.{kind}.{item}.labelSelector: {_NULL_SELECTOR}"
            for item, term in terms
            if "labelSelector" not in term
        ]
    return warnings


def _warn_of_node_labels(path: str, spec: JsonObject) -> list[str]:
    """Warn of rules for nodes that use labels which nodes no longer have, or values that none can have."""
    warnings = [
        warning for key in spec.get("nodeSelector", ()) for warning in warn_of_label(f"{path}.nodeSelector[{key}]", key)
    ]
    affinity = spec.get("affinity", {}).get("nodeAffinity")
    if affinity is not None:
        item = f"{path}.affinity.nodeAffinity"
        for index, term in enumerate(affinity.get(_REQUIRED, {}).get("nodeSelectorTerms", ())):
            warnings += _warn_of_term(f"{item}.{_REQUIRED}.nodeSelectorTerms[{index}]", term, checks_values=False)
        for index, weighted in enumerate(affinity.get(_PREFERRED, ())):
            term = weighted.get("preference", {})
            warnings += _warn_of_term(f"{item}.{_PREFERRED}[{index}].preference", term, checks_values=True)
    for index, constraint in enumerate(spec.get("topologySpreadConstraints", ())):
        item, key = f"{path}.topologySpreadConstraints[{index}]", constraint.get("topologyKey", "")
        warnings += warn_of_key(f"{item}.topologyKey", key)
        if "labelSelector" not in constraint:
            warnings.append(f"{item}.labelSelector: a null labelSelector results in matching no pod")
    return warnings


def _warn_of_term(path: str, term: JsonObject, *, checks_values: bool) -> list[str]:
    warnings = []
    for index, requirement in enumerate(term.get("matchExpressions", ())):
        item, key = f"{path}.matchExpressions[{index}]", requirement.get("key", "")
        warnings += warn_of_key(f"{item}.key", key)
        for position, value in enumerate(requirement.get("values", ()) if checks_values else ()):
            warnings += [
                f"{item}.values[{position}]: {value} is invalid, {reason}" for reason in check_label_value(value)
            ]
    return warnings
