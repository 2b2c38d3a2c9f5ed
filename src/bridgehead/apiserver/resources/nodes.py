"""Node (core/v1): its entry in the table, its defaults and its rules."""

from __future__ import annotations

from bridgehead.apiserver.resource import Column, JsonObject, Resource, Strategy
from bridgehead.objects.names import check_dns1123_subdomain

from .columns import AGE, NAME, NONE, UNKNOWN, at, selectable, text_column

_ROLE_PREFIX = "node-role.kubernetes.io/"


def _status_cell(node: JsonObject, now: float) -> str:
    conditions = at(node, "status", "conditions") or ()
    ready = next((c.get("status", "") for c in conditions if c.get("type") == "Ready"), None)
    word = {None: "Unknown", "True": "Ready"}.get(ready, "NotReady")
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


class NodeStrategy(Strategy):
    def default(self, obj: JsonObject) -> None:
        spec, status = obj.setdefault("spec", {}), obj.setdefault("status", {})
        # `podCIDR` is the older name of the first of `podCIDRs`.
        if spec.get("podCIDR") and not spec.get("podCIDRs"):
            spec["podCIDRs"] = [spec["podCIDR"]]
        elif spec.get("podCIDRs") and not spec.get("podCIDR"):
            spec["podCIDR"] = spec["podCIDRs"][0]
        if "capacity" in status and "allocatable" not in status:
            status["allocatable"] = dict(status["capacity"])

    def prepare_update(self, obj: JsonObject, old: JsonObject, subresource: str) -> None:
        if subresource == "status":
            obj["spec"] = old.get("spec", {})
        else:
            obj["status"] = old.get("status", {})


RESOURCE = Resource(
    group="",
    version="v1",
    kind="Node",
    plural="nodes",
    singular="node",
    namespaced=False,
    short_names=("no",),
    subresources=("status",),
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
