"""Node (core/v1): its entry in the table, its defaults and its rules.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import Column, JsonObject, Resource, StatusStrategy
from bridgehead.apiserver.resources.shared import field
from bridgehead.apiserver.resources.shared.addresses import (
    check_cidr,
    family_of,
    is_cidr,
    validate_new_cidr,
    warn_of_cidr,
)
from bridgehead.apiserver.resources.shared.columns import AGE, NAME, NONE, UNKNOWN, at, selectable, text_column
from bridgehead.apiserver.resources.shared.conditions import find_condition
from bridgehead.apiserver.resources.shared.quantities import validate_quantity
from bridgehead.objects.names import check_dns1123_subdomain, check_label_value, check_qualified_name

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_MAX_FEATURE = 253
_is_feature = re.compile(r"[A-Z][a-zA-Z0-9]*(/[a-zA-Z][a-zA-Z0-9]*)*").fullmatch
_NOT_A_FEATURE = (
    "must start with an UpperCamelCase segment, with subsequent segments separated by '/' (e.g., MyFeature or "
    "MyFeature/mySubFeature), and contain only alphanumeric characters and slashes"
)
_TAINT = {"key": "", "value": "", "effect": "", "timeAdded": None}
_ADDRESS = {"type": "", "address": ""}
# Texts about a node, which are always there.
_INFO = (
    *("machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "containerRuntimeVersion", "kubeletVersion"),
    *("kubeProxyVersion", "operatingSystem", "architecture"),
)
_ROLE_PREFIX = "node-role.kubernetes.io/"


def _status_cell(node: JsonObject, now: float) -> str:
    ready = find_condition(at(node, "status", "conditions"), "Ready")
    word = "Unknown" if ready is None else "Ready" if ready.get("status") == "True" else "NotReady"
    return word + (",SchedulingDisabled" if at(node, "spec", "unschedulable") else "")


def _roles_cell(node: JsonObject, now: float) -> str:
    labels = at(node, "metadata", "labels") or {}
    roles = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)}
    roles.add(str(labels.get("kubernetes.io/role", "")))
    return ",".join(sorted(roles - {""})) or NONE


def _address_column(name: str, type: str) -> Column:
    def cell(node: JsonObject, now: float) -> str:
        addresses = at(node, "status", "addresses") or ()
        return next((str(a.get("address", "")) for a in addresses if a.get("type") == type), NONE)

    return Column(name, cell, priority=1)


class NodeStrategy(StatusStrategy):
    def default(self, obj: JsonObject) -> None:
        spec, status = obj.setdefault("spec", {}), obj.setdefault("status", {})
        # `podCIDR` is the older name of the first of `podCIDRs`. Clients that know only this name replace all of them.
        if spec.get("podCIDR") and (spec.get("podCIDRs") or [""])[0] != spec["podCIDR"]:
            spec["podCIDRs"] = [spec["podCIDR"]]
        elif spec.get("podCIDRs") and not spec.get("podCIDR"):
            spec["podCIDR"] = spec["podCIDRs"][0]
        status.setdefault("daemonEndpoints", {"kubeletEndpoint": {"Port": 0}})
        info = status.setdefault("nodeInfo", {})
        for name in _INFO:
            info.setdefault(name, "")
        if "capacity" in status and "allocatable" not in status:
            status["allocatable"] = dict(status["capacity"])

    def prepare_create(self, obj: JsonObject) -> None:
        obj.get("spec", {}).pop("configSource", None)
        obj.get("status", {}).pop("config", None)

    def prepare_update(self, obj: JsonObject, old: JsonObject, subresource: str) -> None:
        super().prepare_update(obj, old, subresource)
        # The kubelet's dynamic configuration is gone.
        kind, name = ("status", "config") if subresource == "status" else ("spec", "configSource")
        if name not in old.get(kind, {}):
            obj.get(kind, {}).pop(name, None)

    def validate(self, obj: JsonObject) -> list[FieldError]:
        errors = _validate_taints(at(obj, "spec", "taints") or ())
        errors.extend(_validate_cidrs(at(obj, "spec", "podCIDRs") or []))
        for kind in ("capacity", "allocatable"):
            for name, quantity in (at(obj, "status", kind) or {}).items():
                errors.extend(field.errors_below(f"status.{kind}.{name}", validate_quantity, quantity))
        return errors + _validate_features(at(obj, "status", "declaredFeatures") or ())

    def validate_create(self, obj: JsonObject) -> list[FieldError]:
        return _validate_new_cidrs(obj, ()) + _validate_swap(obj)

    def validate_update(self, obj: JsonObject, old: JsonObject, subresource: str) -> list[FieldError]:
        errors = _validate_new_cidrs(obj, at(old, "spec", "podCIDRs") or ())
        cidrs = at(old, "spec", "podCIDRs")
        if cidrs and cidrs != at(obj, "spec", "podCIDRs"):
            detail = 'node updates may not change podCIDR except from "" to valid'
            errors.append(field.forbidden("spec.podCIDRs", detail))
        provider = at(old, "spec", "providerID")
        if provider and provider != at(obj, "spec", "providerID"):
            detail = 'node updates may not change providerID except from "" to valid'
            errors.append(field.forbidden("spec.providerID", detail))
        addresses = at(obj, "status", "addresses") or []
        for index in field.repeated(tuple(sorted(address.items())) for address in addresses):
            shown = field.internal_value(addresses[index], _ADDRESS)
            errors.append(field.duplicate(f"status.addresses[{index}]", shown))
        return errors

    def warnings(self, obj: JsonObject) -> list[str]:
        texts = [text for path, cidr in _valid_cidrs(obj) for text in warn_of_cidr(path, cidr)]
        if at(obj, "spec", "externalID"):
            texts.append("spec.externalID: this field is deprecated, and is unused by Kubernetes")
        return texts


def _validate_new_cidrs(obj: JsonObject, stored: Sequence[str]) -> list[FieldError]:
    return [
        error for path, cidr in _valid_cidrs(obj) for error in field.errors_below(path, validate_new_cidr, cidr, stored)
    ]


def _validate_taints(taints: Sequence[JsonObject]) -> list[FieldError]:
    errors = []
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        path = f"metadata.taints[{index}]"  # the path in Kubernetes' error texts
        key, value, effect = taint.get("key", ""), taint.get("value", ""), taint.get("effect", "")
        errors.extend(field.invalid_for(f"{path}.key", key, check_qualified_name(key)))
        errors.extend(field.invalid_for(f"{path}.value", value, check_label_value(value)))
        errors.extend(
            field.one_of(f"{path}.effect", effect, _EFFECTS) if effect else [field.required(f"{path}.effect")]
        )
        if (key, effect) in seen:
            shown = field.internal_value(taint, _TAINT)
            errors.append(field.duplicate(path, shown, "taints must be unique by key and effect pair"))
            continue
        seen.add((key, effect))
    return errors


def _validate_cidrs(cidrs: list[str]) -> list[FieldError]:
    path = "spec.podCIDRs"
    errors = [
        error
        for index, cidr in enumerate(cidrs)
        for error in field.invalid_for(f"{path}[{index}]", cidr, check_cidr(cidr))
    ]
    if len(cidrs) < 2:
        return errors
    malformed = next((cidr for cidr in cidrs if not is_cidr(cidr)), None)
    if malformed is not None:
        why = f'failed to parse cidr value:"{malformed}" with error:invalid CIDR address: {malformed}'
        errors.append(field.internal(path, f"invalid PodCIDRs. failed to check with dual stack with error:{why}"))
    if malformed is not None or len(cidrs) > 2 or len({family_of(cidr.partition("/")[0]) for cidr in cidrs}) < 2:
        errors.append(field.invalid(path, cidrs, "may specify no more than one CIDR for each IP family"))
    for index, cidr in enumerate(cidrs):
        if cidr in cidrs[:index]:
            errors.append(field.duplicate(f"{path}[{index}]", cidr))
    return errors


def _validate_swap(node: JsonObject) -> list[FieldError]:
    capacity = at(node, "status", "nodeInfo", "swap", "capacity")
    if capacity is None or capacity > 0:
        return []
    # the path in Kubernetes' error texts
    return [field.invalid("metadata.nodeSwapStatus.capacity", capacity, "must be greater than zero")]


def _validate_features(features: Sequence[str]) -> list[FieldError]:
    errors = []
    for index, name in enumerate(features):
        path, before = f"status.declaredFeatures[{index}]", features[index - 1] if index else ""
        if name == before:
            errors.append(field.duplicate(path, name))
        elif name < before:
            errors.append(field.invalid(path, name, "list must be sorted alphabetically"))
        if len(name) > _MAX_FEATURE or not _is_feature(name):
            why = f"must be no more than {_MAX_FEATURE} characters" if len(name) > _MAX_FEATURE else _NOT_A_FEATURE
            errors.append(field.invalid(path, name, f'invalid feature name "{name}": {why}'))
    return errors


def _valid_cidrs(node: JsonObject) -> Iterator[tuple[str, str]]:
    """Yield the paths and texts of all valid ranges."""
    for index, cidr in enumerate(at(node, "spec", "podCIDRs") or ()):
        if is_cidr(cidr):
            yield f"spec.podCIDRs[{index}]", cidr


RESOURCE = Resource(
    group="",
    version="v1",
    kind="Node",
    plural="nodes",
    singular="node",
    namespaced=False,
    short_names=("no",),
    subresources=("status", "proxy"),
    strategy=NodeStrategy(),
    columns=(
        NAME,
        Column("Status", _status_cell, description="The status of the node"),
        Column("Roles", _roles_cell, description="The roles of the node"),
        AGE,
        text_column("Version", "status", "nodeInfo", "kubeletVersion"),
        _address_column("Internal-IP", "InternalIP"),
        _address_column("External-IP", "ExternalIP"),
        text_column("OS-Image", "status", "nodeInfo", "osImage", empty=UNKNOWN, priority=1),
        text_column("Kernel-Version", "status", "nodeInfo", "kernelVersion", empty=UNKNOWN, priority=1),
        text_column("Container-Runtime", "status", "nodeInfo", "containerRuntimeVersion", empty=UNKNOWN, priority=1),
    ),
    selectable={"spec.unschedulable": selectable("spec", "unschedulable", default="false")},
    check_name=check_dns1123_subdomain,
)
