"""PersistentVolumeClaim (core/v1): its entry in the table, its defaults and its rules.

Pure: no I/O, no clock, no randomness.
Source: Kubernetes `ValidatePersistentVolumeClaimSpec`, `ValidatePersistentVolumeClaimUpdate`.
"""

from __future__ import annotations

import math

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import Column, JsonObject, Resource, StatusStrategy, copied
from bridgehead.apiserver.resources.shared.claim_validation import validate_claim_spec, warn_of_claim_spec
from bridgehead.apiserver.resources.shared.columns import AGE, NAME, UNSET, at, text_column
from bridgehead.apiserver.resources.shared.quantity_rules import amount_of, validate_quantity
from bridgehead.apiserver.resources.shared.resource_names import is_native
from bridgehead.apiserver.resources.shared.storage_rules import (
    BETA_CLASS_ANNOTATION,
    CLASS_ANNOTATION_WARNING,
    access_modes_text,
    class_of,
    phase_of,
)
from bridgehead.objects.names import check_dns1123_subdomain, check_qualified_name

# The groups and kinds that the older field for sources may have.
_OLDER_SOURCES = (("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot"))
_RESIZE_STATUSES = (
    *("ControllerResizeInProgress", "ControllerResizeInfeasible", "NodeResizeInProgress", "NodeResizeInfeasible"),
    "NodeResizePending",
)
_IMMUTABLE = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"


class PersistentVolumeClaimStrategy(StatusStrategy):
    def default(self, obj: JsonObject) -> None:
        set_claim_defaults(obj)

    def prepare_create(self, obj: JsonObject) -> None:
        obj["status"] = {"phase": "Pending"}
        _set_sources(obj["spec"], {})

    def prepare_update(self, obj: JsonObject, old: JsonObject, subresource: str) -> None:
        super().prepare_update(obj, old, subresource)
        if subresource != "status":
            _set_sources(obj["spec"], old.get("spec", {}))

    def validate(self, obj: Field) -> None:
        validate_claim_spec(obj.at("spec"))

    def validate_update(self, obj: Field, old: JsonObject, subresource: str) -> None:
        if subresource == "status":
            _validate_status(obj.at("status"))
        else:
            _validate_spec_update(obj, old)

    def warnings(self, obj: JsonObject) -> list[str]:
        has_annotation = BETA_CLASS_ANNOTATION in obj["metadata"].get("annotations", {})
        warnings = [CLASS_ANNOTATION_WARNING] if has_annotation else []
        return [*warnings, *warn_of_claim_spec("spec", obj.get("spec", {}))]


def _set_sources(spec: JsonObject, before: JsonObject) -> None:
    """Set `dataSource` from `dataSourceRef` or the reverse, which mean the same within a namespace.

    Sources that older versions ignored are dropped: all but claims and snapshots in the older field. References to
    other namespaces need a feature gate that is off.
    """
    if "dataSourceRef" not in before and spec.get("dataSourceRef", {}).get("namespace"):
        del spec["dataSourceRef"]
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    is_new = "dataSource" not in before and "dataSourceRef" not in before
    if source is not None and reference is None:
        if is_new and (source.get("apiGroup", ""), source.get("kind")) not in _OLDER_SOURCES:
            del spec["dataSource"]
        else:
            spec["dataSourceRef"] = dict(source)
    elif reference is not None and source is None and not reference.get("namespace"):
        spec["dataSource"] = {name: value for name, value in reference.items() if name != "namespace"}


def _validate_spec_update(claim: Field, old: JsonObject) -> None:
    spec, before = claim.at("spec"), old.get("spec", {})
    if _fixed(claim.value, claim.value, old) != _fixed(old, claim.value, old):
        spec.forbidden(_IMMUTABLE)
    _validate_size_change(spec.at("resources").at("requests").at("storage"), old)
    claim.at("volumeMode").showing(spec.get("volumeMode")).must_not_change(before.get("volumeMode"))
    name, old_name = spec.at("volumeAttributesClassName"), before.get("volumeAttributesClassName")
    if old_name is not None and name.value is None:
        name.forbidden("update from non-nil value to nil is forbidden")
    elif old_name and not name:
        name.forbidden("update from non-nil value to an empty string is forbidden")


def _validate_size_change(size: Field, old: JsonObject) -> None:
    """Validate that a claim that asks for less than before still asks for more than it has."""
    before, capacity = at(old, "spec", "resources", "requests", "storage"), at(old, "status", "capacity", "storage")
    asked, asked_before, reached = (amount_of(one or "0") for one in (size.value, before, capacity))
    if asked is None or asked_before is None or reached is None:
        return
    if asked < asked_before and asked <= reached:
        size.forbidden("field can not be less than status.capacity")


def _validate_status(status: Field) -> None:
    for _, size in status.at("capacity").entries():
        _validate_size(size)
    for name, progress in status.get("allocatedResourceStatuses", {}).items():
        resource = status.at("allocatedResourceStatus").showing(name)
        _validate_resource(resource)
        if progress not in _RESIZE_STATUSES:
            resource.not_supported(_RESIZE_STATUSES)
    allocated = status.at("allocatedResources")
    for name, size in allocated.entries():
        if _validate_resource(allocated.showing(name)) and _validate_size(size):
            validate_quantity(size)


def _validate_size(size: Field) -> bool:
    whole = math.ceil(amount_of(size.value) or 0)
    if whole < 0:
        size.showing(whole).invalid("must be a valid resource quantity")
    return whole >= 0


def _validate_resource(resource: Field) -> bool:
    """Validate the name of a resource of a claim. Return whether it is valid."""
    name = resource.value
    if not resource.must_pass(check_qualified_name):
        return False
    is_valid = not is_native(name) or name == "storage"
    if not is_valid:
        resource.not_supported(("storage",))
    return is_valid


def _fixed(claim: JsonObject, new: JsonObject, old: JsonObject) -> JsonObject:
    """Return the part of the claim's spec that the change from `old` to `new` may not touch."""
    spec: JsonObject = copied(claim.get("spec", {}))
    is_bound = at(new, "status", "phase") == "Bound"
    if is_bound and at(new, "spec", "volumeAttributesClassName") is not None:
        spec.pop("volumeAttributesClassName", None)
    if not at(old, "spec", "volumeName"):
        spec.pop("volumeName", None)  # set once
    if is_bound:
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
