"""RuntimeClass (node.k8s.io/v1): its entry in the table and its rules.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidateRuntimeClass`, `ValidateRuntimeClassUpdate`.
"""

from __future__ import annotations

from bridgehead.apiserver.field import Field, internal_value
from bridgehead.apiserver.resource import JsonObject, Resource, Strategy
from bridgehead.objects.names import check_dns1123_label, check_dns1123_subdomain

from .pods import TOLERATION_FIELDS, validate_overhead, validate_tolerations
from .shared.columns import AGE, NAME, at, text_column
from .shared.metadata_validation import validate_labels
from .shared.node_labels import warn_of_label


class RuntimeClassStrategy(Strategy):
    def validate(self, obj: Field) -> None:
        overhead, scheduling = obj.at("overhead"), obj.at("scheduling")
        tolerations = scheduling.at("tolerations")
        obj.at("handler", "").must_pass(check_dns1123_label)
        validate_overhead(overhead.showing(overhead.get("podFixed", {})))
        validate_labels(scheduling.at("nodeSelector"))
        validate_tolerations(tolerations)
        for toleration in tolerations.repeated(_key):
            toleration.showing(internal_value(toleration.value, TOLERATION_FIELDS)).duplicate()

    def validate_update(self, obj: Field, old: JsonObject, subresource: str) -> None:
        obj.at("handler").must_not_change(old.get("handler"))

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
