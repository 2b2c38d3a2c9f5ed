"""Node (core/v1): its entry in the table, its defaults and its rules.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from bridgehead.apiserver.field import Field, internal_value
from bridgehead.apiserver.resource import Column, JsonObject, Resource, StatusStrategy
from bridgehead.objects.names import check_dns1123_subdomain, check_label_value, check_qualified_name

from .shared.address_rules import (
    check_cidr,
    family_of,
    is_cidr,
    validate_new_cidr,
    warn_of_cidr,
)
from .shared.columns import AGE, NAME, NONE, UNKNOWN, at, selectable, text_column
from .shared.conditions import find_condition
from .shared.quantity_rules import validate_quantity

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

    def validate(self, obj: Field) -> None:
        spec, status = obj.at("spec"), obj.at("status")
        # the path in Kubernetes' error texts
        _validate_taints(Field(spec.get("taints"), "metadata.taints", obj))
        _validate_cidrs(spec.at("podCIDRs", []))
        for kind in ("capacity", "allocatable"):
            quantities = status.at(kind)
            for name in quantities.value or ():
                validate_quantity(quantities.at(name))
        _validate_features(status.at("declaredFeatures"))

    def validate_create(self, obj: Field) -> None:
        _validate_new_cidrs(obj, ())
        swap = at(obj.value, "status", "nodeInfo", "swap", "capacity")
        if swap is not None and swap <= 0:
            # the path in Kubernetes' error texts
            Field(swap, "metadata.nodeSwapStatus.capacity", obj).invalid("must be greater than zero")

    def validate_update(self, obj: Field, old: JsonObject, subresource: str) -> None:
        before = old.get("spec", {})
        _validate_new_cidrs(obj, before.get("podCIDRs", ()))
        for name, shown in (("podCIDRs", "podCIDR"), ("providerID", "providerID")):
            value = obj.at("spec").at(name)
            if before.get(name) and value.value != before[name]:
                value.forbidden(f'node updates may not change {shown} except from "" to valid')
        for address in obj.at("status").at("addresses").repeated(lambda address: tuple(sorted(address.items()))):
            address.showing(internal_value(address.value, _ADDRESS)).duplicate()

    def warnings(self, obj: JsonObject) -> list[str]:
        texts = [text for cidr in _valid_cidrs(Field(obj)) for text in warn_of_cidr(cidr.path, cidr.value)]
        if at(obj, "spec", "externalID"):
            texts.append("spec.externalID: this field is deprecated, and is unused by Kubernetes")
        return texts


def _validate_new_cidrs(node: Field, stored: Collection[str]) -> None:
    for cidr in _valid_cidrs(node):
        validate_new_cidr(cidr, stored)


def _valid_cidrs(node: Field) -> Iterator[Field]:
    return (cidr for cidr in node.at("spec").at("podCIDRs").each() if is_cidr(cidr.value))


def _validate_taints(taints: Field) -> None:
    seen: set[tuple[str, str]] = set()
    for taint in taints.each():
        key, effect = taint.at("key", ""), taint.at("effect", "")
        key.must_pass(check_qualified_name)
        taint.at("value").must_pass(check_label_value)
        effect.must_be_set_to_one_of(_EFFECTS)
        if (key.value, effect.value) in seen:
            shown = taint.showing(internal_value(taint.value, _TAINT))
            shown.duplicate("taints must be unique by key and effect pair")
        seen.add((key.value, effect.value))


def _validate_cidrs(cidrs: Field) -> None:
    cidrs.must_all_pass(check_cidr)
    if len(cidrs.value) < 2:
        return
    malformed = next((cidr for cidr in cidrs.value if not is_cidr(cidr)), None)
    if malformed is not None:
        why = f'failed to parse cidr value:"{malformed}" with error:invalid CIDR address: {malformed}'
        cidrs.internal(f"invalid PodCIDRs. failed to check with dual stack with error:{why}")
    families = {family_of(cidr.partition("/")[0]) for cidr in cidrs.value}
    if malformed is not None or len(cidrs.value) > 2 or len(families) < 2:
        cidrs.invalid("may specify no more than one CIDR for each IP family")
    cidrs.must_have_no_duplicates()


def _validate_features(features: Field) -> None:
    before = ""
    for feature in features.each():
        name: str = feature.value
        if name == before:
            feature.duplicate()
        elif name < before:
            feature.invalid("list must be sorted alphabetically")
        if len(name) > _MAX_FEATURE:
            feature.invalid(f'invalid feature name "{name}": must be no more than {_MAX_FEATURE} characters')
        elif not _is_feature(name):
            feature.invalid(f'invalid feature name "{name}": {_NOT_A_FEATURE}')
        before = name


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
