"""RuntimeClass (node.k8s.io/v1): its entry in the table and its rules.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidateRuntimeClass`, `ValidateRuntimeClassUpdate`.
"""

from __future__ import annotations

from bridgehead.apiserver.resource import FieldError, JsonObject, Resource, Strategy
from bridgehead.apiserver.resources.pods import validate_tolerations
from bridgehead.apiserver.resources.shared import field
from bridgehead.apiserver.resources.shared.columns import AGE, NAME, at, text_column
from bridgehead.apiserver.resources.shared.metadata_validation import validate_labels
from bridgehead.apiserver.resources.shared.node_labels import warn_of_label
from bridgehead.apiserver.resources.shared.quantities import validate_quantity
from bridgehead.objects.names import check_dns1123_label, check_dns1123_subdomain


class RuntimeClassStrategy(Strategy):
    def validate(self, obj: JsonObject) -> list[FieldError]:
        handler = obj.get("handler", "")
        errors = field.invalid_for("handler", handler, check_dns1123_label(handler))
        for name, quantity in (at(obj, "overhead", "podFixed") or {}).items():
            errors.extend(validate_quantity(f"overhead.podFixed[{name}]", quantity))
        scheduling = obj.get("scheduling", {})
        errors.extend(validate_labels("scheduling.nodeSelector", scheduling.get("nodeSelector", {})))
        tolerations = scheduling.get("tolerations", [])
        errors.extend(validate_tolerations("scheduling.tolerations", tolerations))
        errors.extend(
            field.duplicate(f"scheduling.tolerations[{index}]", toleration)
            for index, toleration in enumerate(tolerations)
            if toleration in tolerations[:index]
        )
        return errors

    def validate_update(self, obj: JsonObject, old: JsonObject, subresource: str) -> list[FieldError]:
        if obj.get("handler") == old.get("handler"):
            return []
        return [field.invalid("handler", obj.get("handler"), field.IMMUTABLE)]

    def warnings(self, obj: JsonObject) -> list[str]:
        labels = at(obj, "scheduling", "nodeSelector") or {}
        return [warning for label in labels for warning in warn_of_label("scheduling.nodeSelector", label)]


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
