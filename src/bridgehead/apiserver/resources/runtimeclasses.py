"""RuntimeClass (node.k8s.io/v1): its entry in the table and its rules.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidateRuntimeClass`, `ValidateRuntimeClassUpdate`.
"""

from __future__ import annotations

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import JsonObject, Resource, Strategy
from bridgehead.apiserver.resources.pods import TOLERATION_FIELDS, validate_overhead, validate_tolerations
from bridgehead.apiserver.resources.shared import field
from bridgehead.apiserver.resources.shared.columns import AGE, NAME, at, text_column
from bridgehead.apiserver.resources.shared.metadata_validation import validate_labels
from bridgehead.apiserver.resources.shared.node_labels import warn_of_label
from bridgehead.objects.names import check_dns1123_label, check_dns1123_subdomain


class RuntimeClassStrategy(Strategy):
    def validate(self, obj: JsonObject) -> list[FieldError]:
        handler = obj.get("handler", "")
        errors = field.invalid_for("handler", handler, check_dns1123_label(handler))
        errors.extend(field.errors_below("overhead", validate_overhead, at(obj, "overhead", "podFixed") or {}))
        scheduling = obj.get("scheduling", {})
        errors.extend(
            field.errors_below("scheduling.nodeSelector", validate_labels, scheduling.get("nodeSelector", {}))
        )
        tolerations = scheduling.get("tolerations", [])
        errors.extend(field.errors_below("scheduling.tolerations", validate_tolerations, tolerations))
        errors.extend(
            field.duplicate(
                f"scheduling.tolerations[{index}]", field.internal_value(tolerations[index], TOLERATION_FIELDS)
            )
            for index in field.repeated(map(_key, tolerations))
        )
        return errors

    def validate_update(self, obj: JsonObject, old: JsonObject, subresource: str) -> list[FieldError]:
        if obj.get("handler") == old.get("handler"):
            return []
        return [field.invalid("handler", obj.get("handler"), field.IMMUTABLE)]

    def warnings(self, obj: JsonObject) -> list[str]:
        labels = at(obj, "scheduling", "nodeSelector") or {}
        return [warning for label in labels for warning in warn_of_label("scheduling.nodeSelector", label)]


def _key(toleration: JsonObject) -> tuple[str, ...]:
    return tuple(toleration.get(name, "") for name in ("key", "operator", "value", "effect"))


RESOURCE = Resource(
    group="node.k8s.io",
    version="v1",
    kind="RuntimeClass",
    plural="runtimeclasses",
    singular="runtimeclass",
    namespaced=False,
    strategy=RuntimeClassStrategy(),
    columns=(NAME, text_column("Handler", "handler"), AGE),
    check_name=check_dns1123_subdomain,
    allows_unconditional_update=False,
    is_created_by_update=True,
)
