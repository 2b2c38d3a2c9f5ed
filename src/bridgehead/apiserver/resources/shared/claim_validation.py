"""Validation of the spec of a PersistentVolumeClaim, in a claim and in the templates of claims.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidatePersistentVolumeClaimSpec`.
"""

from __future__ import annotations

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import JsonObject
from bridgehead.objects.names import check_dns1123_label, check_dns1123_subdomain

from .columns import at
from .metadata_validation import validate_label_selector
from .quantity_rules import validate_quantity, warn_of_fractional_bytes
from .storage_rules import VOLUME_MODES, validate_access_modes, validate_class_name, validate_positive_quantity

# Value in errors in which Kubernetes shows the path of a field instead of the field's value.
_A_PATH: JsonObject = {}


def validate_claim_spec(spec: Field) -> None:
    """Validate the spec of a claim, or of a template of claims."""
    validate_access_modes(spec.at("accessModes"))
    validate_label_selector(spec.at("selector"))
    storage = Field(at(spec.value, "resources", "requests", "storage"), "resources[storage]", spec)
    if storage.must_exist() and validate_quantity(storage):
        validate_positive_quantity(storage)
    validate_class_name(spec.at("storageClassName"))
    spec.at("volumeMode").must_be_one_of(VOLUME_MODES)
    source, reference = spec.at("dataSource"), spec.at("dataSourceRef")
    source.must_obey(_validate_data_source)
    reference.must_obey(_validate_data_source)
    if source.value is not None and reference.value is not None:
        if reference.get("namespace"):
            spec.showing(_A_PATH).invalid("may not be specified when dataSourceRef.namespace is specified")
        elif any(source.get(name) != reference.get(name) for name in ("apiGroup", "kind", "name")):
            spec.showing(_A_PATH).invalid("must match dataSourceRef")
    validate_class_name(spec.at("volumeAttributesClassName"))


def _validate_data_source(source: Field) -> None:
    source.at("name").must_be_set()
    source.at("kind").must_be_set()
    if group := source.at("apiGroup"):
        group.must_pass(check_dns1123_subdomain)
    elif source.get("kind") != "PersistentVolumeClaim":
        detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
        source.showing(source.get("kind", "")).invalid(detail)
    source.if_set("namespace").must_pass(check_dns1123_label)


def warn_of_claim_spec(path: str, spec: JsonObject) -> list[str]:
    """Return warnings about the spec of a claim, or of a template of claims."""
    warnings: list[str] = []
    for kind in ("requests", "limits"):
        quantities = at(spec, "resources", kind) or {}
        warnings += warn_of_fractional_bytes(f"{path}.resources.{kind}", quantities, ("storage",))
    return warnings
