"""ResourceClaimTemplate (resource.k8s.io/v1): its entry in the table and its rules.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidateResourceClaimTemplate`.
"""

from __future__ import annotations

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import JsonObject, Resource, Strategy
from bridgehead.apiserver.resources.shared import field
from bridgehead.apiserver.resources.shared.columns import AGE, NAME
from bridgehead.apiserver.resources.shared.metadata_validation import validate_annotations, validate_labels
from bridgehead.objects.names import check_dns1123_subdomain

from .device_rules import set_claim_defaults, validate_claim_spec


class ResourceClaimTemplateStrategy(Strategy):
    @property
    def may_take_long(self) -> bool:
        return True  # selectors are compiled

    def default(self, obj: JsonObject) -> None:
        spec = obj.setdefault("spec", {})
        spec.setdefault("metadata", {})
        set_claim_defaults(spec.setdefault("spec", {}))

    def validate_create(self, obj: JsonObject) -> list[FieldError]:
        spec = obj.get("spec", {})
        metadata = spec.get("metadata", {})
        return [
            *field.errors_below("spec.metadata.labels", validate_labels, metadata.get("labels", {})),
            *field.errors_below("spec.metadata.annotations", validate_annotations, metadata.get("annotations", {})),
            *validate_claim_spec("spec.spec", spec.get("spec", {})),
        ]

    def validate_update(self, obj: JsonObject, old: JsonObject, subresource: str) -> list[FieldError]:
        if obj.get("spec") == old.get("spec"):
            return []
        return [field.invalid("spec", obj.get("spec"), field.IMMUTABLE)]


RESOURCE = Resource(
    group="resource.k8s.io",
    version="v1",
    kind="ResourceClaimTemplate",
    plural="resourceclaimtemplates",
    singular="resourceclaimtemplate",
    namespaced=True,
    strategy=ResourceClaimTemplateStrategy(),
    columns=(NAME, AGE),
    check_name=check_dns1123_subdomain,
)
