"""ResourceClaimTemplate (resource.k8s.io/v1): its entry in the table and its rules.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidateResourceClaimTemplate`.
"""

from __future__ import annotations

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import JsonObject, Resource, Strategy
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

    def validate_create(self, obj: Field) -> None:
        spec = obj.at("spec")
        validate_labels(spec.at("metadata").at("labels"))
        validate_annotations(spec.at("metadata").at("annotations"))
        validate_claim_spec(spec.at("spec"))

    def validate_update(self, obj: Field, old: JsonObject, subresource: str) -> None:
        obj.at("spec").must_not_change(old.get("spec"))


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
