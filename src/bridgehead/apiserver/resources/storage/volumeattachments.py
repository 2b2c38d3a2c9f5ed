"""VolumeAttachment (storage.k8s.io/v1): its entry in the table and its rules.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidateVolumeAttachment`, `ValidateVolumeAttachmentV1`.
"""

from __future__ import annotations

from dataclasses import replace

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import CLIENT_METADATA, JsonObject, Resource, StatusStrategy
from bridgehead.apiserver.resources.shared import field
from bridgehead.apiserver.resources.shared.columns import AGE, NAME, at, boolean_column, text_column
from bridgehead.apiserver.resources.shared.storage_rules import validate_driver_name
from bridgehead.objects.names import check_dns1123_subdomain

from .persistentvolumes import validate_volume_spec

_MAX_METADATA_BYTES, _MAX_MESSAGE_BYTES = 256 * 1024, 1024
_EXACTLY_ONE = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"


class VolumeAttachmentStrategy(StatusStrategy):
    def default(self, obj: JsonObject) -> None:
        obj.setdefault("spec", {}).setdefault("source", {})
        obj.setdefault("status", {}).setdefault("attached", False)

    def prepare_create(self, obj: JsonObject) -> None:
        obj["status"] = {"attached": False}

    def validate(self, obj: JsonObject) -> list[FieldError]:
        spec, status = obj.get("spec", {}), obj.get("status", {})
        errors = [] if spec.get("attacher") else [field.required("spec.attacher")]
        errors.extend(_validate_source("spec.source", spec.get("source", {})))
        node = spec.get("nodeName", "")
        errors.extend(field.invalid_for("spec.nodeName", node, check_dns1123_subdomain(node)))
        return [*errors, *_validate_status(status)]

    def validate_create(self, obj: JsonObject) -> list[FieldError]:
        spec = obj.get("spec", {})
        errors = field.errors_below("spec.attacher", validate_driver_name, spec.get("attacher", ""))
        if volume := at(spec, "source", "persistentVolumeName"):
            path = "spec.source.persistentVolumeName"
            errors.extend(field.invalid_for(path, volume, check_dns1123_subdomain(volume)))
        return errors

    def validate_update(self, obj: JsonObject, old: JsonObject, subresource: str) -> list[FieldError]:
        if obj.get("spec") == old.get("spec"):
            return []
        return [field.invalid("spec", obj.get("spec"), field.IMMUTABLE)]


def _validate_source(path: str, source: JsonObject) -> list[FieldError]:
    inline, name = source.get("inlineVolumeSpec"), source.get("persistentVolumeName")
    if inline is None and name is None:
        return [field.required(path, _EXACTLY_ONE)]
    if inline is not None and name is not None:
        return [field.forbidden(path, _EXACTLY_ONE)]
    if inline is not None:
        return validate_volume_spec(f"{path}.inlineVolumeSpec", inline, is_inline=True)
    if not name:
        return [field.required(f"{path}.persistentVolumeName", "must specify non empty persistentVolumeName")]
    return []


def _validate_status(status: JsonObject) -> list[FieldError]:
    errors = []
    metadata = status.get("attachmentMetadata", {})
    if sum(len(key.encode()) + len(value.encode()) for key, value in metadata.items()) > _MAX_METADATA_BYTES:
        errors.append(field.too_long("status.attachmentMetadata", _MAX_METADATA_BYTES))
    for name in ("attachError", "detachError"):
        error = status.get(name, {})
        if len(error.get("message", "").encode()) > _MAX_MESSAGE_BYTES:
            # Kubernetes names the other limit.
            errors.append(field.too_long(f"status.{name}.message", _MAX_METADATA_BYTES))
        if (code := error.get("errorCode", 0)) < 0:
            errors.append(
                field.invalid(f"status.{name}.errorCode", code, "must be between 0 and 2147483647, inclusive")
            )
    return errors


RESOURCE = Resource(
    group="storage.k8s.io",
    version="v1",
    kind="VolumeAttachment",
    plural="volumeattachments",
    singular="volumeattachment",
    namespaced=False,
    subresources=("status",),
    strategy=VolumeAttachmentStrategy(),
    columns=(
        NAME,
        replace(text_column("Attacher", "spec", "attacher"), format="name"),
        text_column("PV", "spec", "source", "persistentVolumeName"),
        text_column("Node", "spec", "nodeName"),
        boolean_column("Attached", "status", "attached"),
        AGE,
    ),
    returns_deleted=True,
    check_name=check_dns1123_subdomain,
    kept_by_status=CLIENT_METADATA,
    allows_unconditional_update=False,
)
