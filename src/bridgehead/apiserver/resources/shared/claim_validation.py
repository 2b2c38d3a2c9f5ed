"""Validation of the spec of a PersistentVolumeClaim, in a claim and in the templates of claims.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidatePersistentVolumeClaimSpec`.
"""

from __future__ import annotations

from bridgehead.apiserver.resource import FieldError, JsonObject
from bridgehead.objects.names import check_dns1123_label, check_dns1123_subdomain

from . import field
from .columns import at
from .metadata_validation import validate_label_selector
from .quantities import validate_quantity, warn_of_fractional_bytes
from .storage_rules import VOLUME_MODES, validate_access_modes, validate_class_name, validate_positive_quantity

# How Kubernetes shows a path of a field where it means the field's value.
_A_PATH: JsonObject = {}


def validate_claim_spec(path: str, spec: JsonObject) -> list[FieldError]:
    """Validate the spec of a claim, or of a template of claims."""
    errors = validate_access_modes(f"{path}.accessModes", spec.get("accessModes", ()))
    errors.extend(validate_label_selector(f"{path}.selector", spec.get("selector", {})))
    item, size = f"{path}.resources[storage]", at(spec, "resources", "requests", "storage")
    if size is None:
        errors.append(field.required(item))
    else:
        errors.extend(validate_quantity(item, size) or validate_positive_quantity(item, size))
    errors.extend(validate_class_name(path, spec, "storageClassName"))
    if "volumeMode" in spec:
        errors.extend(field.one_of(f"{path}.volumeMode", spec["volumeMode"], VOLUME_MODES))
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    for name, one in (("dataSource", source), ("dataSourceRef", reference)):
        if one is not None:
            errors.extend(_validate_data_source(f"{path}.{name}", one))
    if source is not None and reference is not None:
        if reference.get("namespace"):
            detail = "may not be specified when dataSourceRef.namespace is specified"
            errors.append(field.invalid(path, _A_PATH, detail))
        elif any(source.get(name) != reference.get(name) for name in ("apiGroup", "kind", "name")):
            errors.append(field.invalid(path, _A_PATH, "must match dataSourceRef"))
    return [*errors, *validate_class_name(path, spec, "volumeAttributesClassName")]


def _validate_data_source(path: str, source: JsonObject) -> list[FieldError]:
    errors = [field.required(f"{path}.{name}") for name in ("name", "kind") if not source.get(name)]
    group = source.get("apiGroup", "")
    if not group and source.get("kind") != "PersistentVolumeClaim":
        detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
        errors.append(field.invalid(path, source.get("kind", ""), detail))
    if group:
        errors.extend(field.invalid_for(f"{path}.apiGroup", group, check_dns1123_subdomain(group)))
    if namespace := source.get("namespace"):
        errors.extend(field.invalid_for(f"{path}.namespace", namespace, check_dns1123_label(namespace)))
    return errors


def warn_of_claim_spec(path: str, spec: JsonObject) -> list[str]:
    """Return warnings about the spec of a claim, or of a template of claims."""
    warnings: list[str] = []
    for kind in ("requests", "limits"):
        quantities = at(spec, "resources", kind) or {}
        warnings += warn_of_fractional_bytes(f"{path}.resources.{kind}", quantities, ("storage",))
    return warnings
