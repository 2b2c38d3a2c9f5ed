"""PriorityClass (scheduling.k8s.io/v1): its entry in the table, its defaults and its rules.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidatePriorityClass`, `ValidatePriorityClassUpdate`.
"""

from __future__ import annotations

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import Column, JsonObject, Resource, Strategy
from bridgehead.objects.critical_pods import SYSTEM_CLASSES
from bridgehead.objects.names import check_dns1123_subdomain

from .shared.columns import AGE, NAME, number_column, text_column

_SYSTEM_PREFIX = "system-"
_HIGHEST_OF_USERS = 1_000_000_000
_POLICIES = ("PreemptLowerPriority", "Never")


class PriorityClassStrategy(Strategy):
    def default(self, obj: JsonObject) -> None:
        obj["preemptionPolicy"] = obj.get("preemptionPolicy") or "PreemptLowerPriority"
        obj.setdefault("value", 0)

    def validate(self, obj: Field) -> None:
        name, value = obj.at("metadata").at("name", ""), obj.at("value", 0)
        if name.value.startswith(_SYSTEM_PREFIX):
            if why := _refuse_system_class(name.value, value.value, is_default=bool(obj.get("globalDefault"))):
                reserved = f"priority class names with '{_SYSTEM_PREFIX}' prefix are reserved for system use only"
                name.forbidden(f"{reserved}. error: {why}")
        elif value.value > _HIGHEST_OF_USERS:
            value.forbidden(f"maximum allowed value of a user defined priority is {_HIGHEST_OF_USERS}")
        obj.at("preemptionPolicy", "").must_be_one_of(_POLICIES)

    def validate_update(self, obj: Field, old: JsonObject, subresource: str) -> None:
        value = obj.at("value")
        if value.value != old.get("value"):
            value.forbidden("may not be changed in an update.")
        obj.at("preemptionPolicy").must_not_change(old.get("preemptionPolicy"))


def _refuse_system_class(name: str, value: int, *, is_default: bool) -> str:
    if name not in SYSTEM_CLASSES:
        return f"{name} is not a known system priority class"
    if value != SYSTEM_CLASSES[name]:
        return f"value of {name} PriorityClass must be {SYSTEM_CLASSES[name]}"
    return f"globalDefault of {name} PriorityClass must be false" if is_default else ""


RESOURCE = Resource(
    group="scheduling.k8s.io",
    version="v1",
    kind="PriorityClass",
    plural="priorityclasses",
    singular="priorityclass",
    namespaced=False,
    short_names=("pc",),
    strategy=PriorityClassStrategy(),
    columns=(
        NAME,
        number_column("Value", "value"),
        Column("Global-Default", lambda one, now: str(bool(one.get("globalDefault"))).lower(), type="boolean"),
        AGE,
        text_column("PreemptionPolicy", "preemptionPolicy"),
    ),
    has_generation=True,
    check_name=check_dns1123_subdomain,
)
