"""CSINode (storage.k8s.io/v1): its entry in the table and its rules.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidateCSINode`, `ValidateCSINodeUpdate`.
"""

from __future__ import annotations

from bridgehead.apiserver.field import IMMUTABLE, Field
from bridgehead.apiserver.resource import Column, JsonObject, Resource, Strategy
from bridgehead.apiserver.resources.shared.columns import AGE, NAME, at
from bridgehead.apiserver.resources.shared.storage_rules import validate_driver_name
from bridgehead.objects.names import check_dns1123_subdomain, check_qualified_name

_MAX_NODE_ID = 256
_MAX_SHOWN_KEYS = 64


class CSINodeStrategy(Strategy):
    def default(self, obj: JsonObject) -> None:
        obj.setdefault("spec", {})

    def validate(self, obj: Field) -> None:
        names: set[str] = set()
        for driver in obj.at("spec").at("drivers").each():
            _validate_driver(driver)
            driver.at("name", "").must_not_repeat(names)

    def validate_update(self, obj: Field, old: JsonObject, subresource: str) -> None:
        before = {driver.get("name"): driver for driver in at(old, "spec", "drivers") or ()}
        for driver in at(obj.value, "spec", "drivers") or ():
            name = driver.get("name")
            if name in before and _identity(driver) != _identity(before[name]):
                obj.at("CSINodeDriver").showing(driver).invalid(IMMUTABLE)


def _identity(driver: JsonObject) -> JsonObject:
    """Return what may not change: a driver reports its allocatable volumes again and again."""
    return {name: value for name, value in driver.items() if name != "allocatable"}


def _validate_driver(driver: Field) -> None:
    validate_driver_name(driver.at("name", ""))
    node = driver.at("nodeID", "")
    node.must_be_set()
    if len(node.value) > _MAX_NODE_ID:
        node.invalid(f"must be {_MAX_NODE_ID} characters or less")
    driver.at("allocatable").at("count").must_not_be_negative()
    keys = driver.get("topologyKeys", [])
    shown = driver.showing(keys[:_MAX_SHOWN_KEYS])  # by each error
    seen: set[str] = set()
    for key in keys:
        one = driver.showing(key)
        one.must_be_set()
        one.must_not_repeat(seen)
        for reason in check_qualified_name(key):
            shown.invalid(reason)


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
