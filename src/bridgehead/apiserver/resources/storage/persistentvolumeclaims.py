"""PersistentVolumeClaim (core/v1): its entry in the table, its defaults and its rules.

Pure: no I/O, no clock, no randomness.
Source: Kubernetes `ValidatePersistentVolumeClaimSpec`, `ValidatePersistentVolumeClaimUpdate`.
"""

from __future__ import annotations

from bridgehead.apiserver.resource import Column, FieldError, JsonObject, Resource, StatusStrategy, copied
from bridgehead.apiserver.resources.shared import field
from bridgehead.apiserver.resources.shared.claim_validation import validate_claim_spec
from bridgehead.apiserver.resources.shared.columns import AGE, NAME, UNSET, at, text_column
from bridgehead.apiserver.resources.shared.quantities import amount_of
from bridgehead.apiserver.resources.shared.storage_rules import (
    BETA_CLASS_ANNOTATION,
    access_modes_text,
    class_of,
    phase_of,
)
from bridgehead.objects.names import check_dns1123_subdomain

_IMMUTABLE = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"


class PersistentVolumeClaimStrategy(StatusStrategy):
    def default(self, obj: JsonObject) -> None:
        set_claim_defaults(obj)
        spec = obj["spec"]
        source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
        # The older field and the newer one mean the same, but for references to other namespaces.
        if source and not reference:
            spec["dataSourceRef"] = dict(source)
        elif reference and not source and not reference.get("namespace"):
            spec["dataSource"] = dict(reference)

    def prepare_create(self, obj: JsonObject) -> None:
        obj["status"] = {"phase": "Pending"}

    def validate(self, obj: JsonObject) -> list[FieldError]:
        return validate_claim_spec("spec", obj.get("spec", {}))

    def validate_update(self, obj: JsonObject, old: JsonObject, subresource: str) -> list[FieldError]:
        spec, before = obj.get("spec", {}), old.get("spec", {})
        errors = []
        if _fixed(obj, obj, old) != _fixed(old, obj, old):
            errors.append(field.forbidden("spec", _IMMUTABLE))
        size, old_size = (amount_of(at(one, "resources", "requests", "storage") or "0") for one in (spec, before))
        reached = amount_of(at(old, "status", "capacity", "storage") or "0")
        if size is not None and old_size is not None and reached is not None and size < old_size and size <= reached:
            detail = "field can not be less than status.capacity"
            errors.append(field.forbidden("spec.resources.requests.storage", detail))
        if spec.get("volumeMode") != before.get("volumeMode"):
            errors.append(field.invalid("volumeMode", spec.get("volumeMode"), field.IMMUTABLE))
        if before.get("volumeAttributesClassName") is not None and not spec.get("volumeAttributesClassName"):
            to = "an empty string" if "volumeAttributesClassName" in spec else "nil"
            if before["volumeAttributesClassName"] or to == "nil":
                detail = f"update from non-nil value to {to} is forbidden"
                errors.append(field.forbidden("spec.volumeAttributesClassName", detail))
        return errors


def _fixed(claim: JsonObject, new: JsonObject, old: JsonObject) -> JsonObject:
    """Return the part of the claim's spec that the change from `old` to `new` may not touch."""
    spec: JsonObject = copied(claim.get("spec", {}))
    spec.pop("volumeAttributesClassName", None)
    if not at(old, "spec", "volumeName"):
        spec.pop("volumeName", None)  # set once
    if at(new, "status", "phase") == "Bound":
        (at(spec, "resources", "requests") or {}).pop("storage", None)
    annotation = (at(old, "metadata", "annotations") or {}).get(BETA_CLASS_ANNOTATION)
    chosen = at(new, "spec", "storageClassName")
    # A claim without a class may get one, the one that its annotation names.
    if "storageClassName" not in old.get("spec", {}) and chosen is not None and annotation in (None, chosen):
        spec.pop("storageClassName", None)
    return spec


def set_claim_defaults(obj: JsonObject) -> None:
    """Set the defaults of a claim, or of a template of claims."""
    obj.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
    status = obj.setdefault("status", {})
    status["phase"] = status.get("phase") or "Pending"


def _capacity_cell(claim: JsonObject, now: float) -> str:
    if not at(claim, "spec", "volumeName"):
        return ""
    return str(at(claim, "status", "capacity", "storage") or "0")


def _modes_cell(claim: JsonObject, now: float) -> str:
    if not at(claim, "spec", "volumeName"):
        return ""
    return access_modes_text(at(claim, "status", "accessModes") or ())


RESOURCE = Resource(
    group="",
    version="v1",
    kind="PersistentVolumeClaim",
    plural="persistentvolumeclaims",
    singular="persistentvolumeclaim",
    namespaced=True,
    short_names=("pvc",),
    subresources=("status",),
    strategy=PersistentVolumeClaimStrategy(),
    columns=(
        NAME,
        Column("Status", lambda claim, now: phase_of(claim)),
        text_column("Volume", "spec", "volumeName"),
        Column("Capacity", _capacity_cell),
        Column("Access Modes", _modes_cell),
        Column("StorageClass", lambda claim, now: class_of(claim)),
        text_column("VolumeAttributesClass", "spec", "volumeAttributesClassName", empty=UNSET),
        AGE,
        text_column("VolumeMode", "spec", "volumeMode", empty=UNSET, priority=1),
    ),
    returns_deleted=True,
    check_name=check_dns1123_subdomain,
)
