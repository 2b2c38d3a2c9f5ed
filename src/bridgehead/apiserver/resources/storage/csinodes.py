"""CSINode (storage.k8s.io/v1): its entry in the table and its rules.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidateCSINode`, `ValidateCSINodeUpdate`.
"""

from __future__ import annotations

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import Column, JsonObject, Resource, Strategy
from bridgehead.apiserver.resources.shared import field
from bridgehead.apiserver.resources.shared.columns import AGE, NAME, at
from bridgehead.apiserver.resources.shared.storage_rules import validate_driver_name
from bridgehead.objects.names import check_dns1123_subdomain, check_qualified_name

_MAX_NODE_ID = 256
_MAX_SHOWN_KEYS = 64


class CSINodeStrategy(Strategy):
    def default(self, obj: JsonObject) -> None:
        obj.setdefault("spec", {})

    def validate(self, obj: JsonObject) -> list[FieldError]:
        errors = []
        names: set[str] = set()
        for index, driver in enumerate(at(obj, "spec", "drivers") or ()):
            path, name = f"spec.drivers[{index}]", driver.get("name", "")
            errors.extend(_validate_driver(path, driver))
            if name in names:
                errors.append(field.duplicate(f"{path}.name", name))
            names.add(name)
        return errors

    def validate_update(self, obj: JsonObject, old: JsonObject, subresource: str) -> list[FieldError]:
        before = {driver.get("name"): driver for driver in at(old, "spec", "drivers") or ()}
        return [
            field.invalid("CSINodeDriver", driver, field.IMMUTABLE)
            for driver in at(obj, "spec", "drivers") or ()
            if driver.get("name") in before and _identity(driver) != _identity(before[driver.get("name")])
        ]


def _identity(driver: JsonObject) -> JsonObject:
    """Return what may not change: a driver reports its allocatable volumes again and again."""
    return {name: value for name, value in driver.items() if name != "allocatable"}


def _validate_driver(path: str, driver: JsonObject) -> list[FieldError]:
    errors = field.errors_below(f"{path}.name", validate_driver_name, driver.get("name", ""))
    node = driver.get("nodeID", "")
    if not node:
        errors.append(field.required(f"{path}.nodeID"))
    if len(node) > _MAX_NODE_ID:
        errors.append(field.invalid(f"{path}.nodeID", node, f"must be {_MAX_NODE_ID} characters or less"))
    count = at(driver, "allocatable", "count")
    if count is not None:
        errors.extend(field.non_negative(f"{path}.allocatable.count", count))
    keys = driver.get("topologyKeys", [])
    repeated = set(field.repeated(keys))
    shown = keys[:_MAX_SHOWN_KEYS]  # by each error
    for index, key in enumerate(keys):
        if not key:
            errors.append(field.required(path))
        if index in repeated:
            errors.append(field.duplicate(path, key))
        errors.extend(field.invalid_for(path, shown, check_qualified_name(key)))
    return errors


RESOURCE = Resource(
    group="storage.k8s.io",
    version="v1",
    kind="CSINode",
    plural="csinodes",
    singular="csinode",
    namespaced=False,
    strategy=CSINodeStrategy(),
    columns=(
        NAME,
        Column("Drivers", lambda node, now: len(at(node, "spec", "drivers") or ()), type="integer"),
        AGE,
    ),
    returns_deleted=True,
    check_name=check_dns1123_subdomain,
    allows_unconditional_update=False,
)
