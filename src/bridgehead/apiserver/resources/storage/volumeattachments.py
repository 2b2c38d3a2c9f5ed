"""VolumeAttachment (storage.k8s.io/v1): its entry in the table and its rules.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidateVolumeAttachment`, `ValidateVolumeAttachmentV1`.
"""

from __future__ import annotations

from dataclasses import replace

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import CLIENT_METADATA, JsonObject, Resource, StatusStrategy
from bridgehead.apiserver.resources.shared.columns import AGE, NAME, boolean_column, text_column
from bridgehead.apiserver.resources.shared.storage_rules import byte_count, validate_driver_name
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

    def validate(self, obj: Field) -> None:
        spec = obj.at("spec")
        spec.at("attacher").must_be_set()
        _validate_source(spec.at("source"))
        spec.at("nodeName", "").must_pass(check_dns1123_subdomain)
        _validate_status(obj.at("status"))

    def validate_create(self, obj: Field) -> None:
        spec = obj.at("spec")
        validate_driver_name(spec.at("attacher", ""))
        spec.at("source").if_set("persistentVolumeName").must_pass(check_dns1123_subdomain)

    def validate_update(self, obj: Field, old: JsonObject, subresource: str) -> None:
        obj.at("spec").must_not_change(old.get("spec"))


def _validate_source(source: Field) -> None:
    inline, name = source.at("inlineVolumeSpec"), source.at("persistentVolumeName")
    if inline.value is None and name.value is None:
        source.required(_EXACTLY_ONE)
    elif inline.value is None:
        name.must_be_set("must specify non empty persistentVolumeName")
    elif name.value is None:
        validate_volume_spec(inline, is_inline=True)
    else:
        source.forbidden(_EXACTLY_ONE)


def _validate_status(status: Field) -> None:
    metadata = status.at("attachmentMetadata")
    if byte_count(metadata.value or {}) > _MAX_METADATA_BYTES:
        metadata.too_long(_MAX_METADATA_BYTES)
    for name in ("attachError", "detachError"):
        message, code = status.at(name).at("message", ""), status.at(name).at("errorCode")
        if len(message.value.encode()) > _MAX_MESSAGE_BYTES:
            message.too_long(_MAX_METADATA_BYTES)  # Kubernetes names the other limit
        code.must_be_within(0, 2**31 - 1)


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
