"""Validation of volumes in pods and pod templates.

Volume types that no node can provide are accepted, as in Kubernetes; the kubelet reports them.
Called by `pod_validation`. Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidateVolumes`.
"""

from __future__ import annotations

from collections.abc import Sequence

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared import field
from bridgehead.apiserver.resources.shared.claim_validation import validate_claim_spec
from bridgehead.apiserver.resources.shared.keys import check_local_path
from bridgehead.apiserver.resources.shared.metadata_validation import validate_annotations, validate_labels
from bridgehead.apiserver.resources.shared.quantities import amount_of
from bridgehead.objects.names import check_dns1123_label

from .container_validation import (
    PULL_POLICIES,
    validate_field_ref,
    validate_resource_field_ref,
)
from .volume_sources import validate_external_source

_HOST_PATH_TYPES = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)
_DOWNWARD_FIELDS = ("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid")
# In the order of Kubernetes' `validateVolumeSource`: the first one given is the volume's type.
_SOURCES = (
    *("emptyDir", "hostPath", "gitRepo", "gcePersistentDisk", "awsElasticBlockStore", "secret", "nfs", "iscsi"),
    *("glusterfs", "flocker", "persistentVolumeClaim", "rbd", "cinder", "cephfs", "quobyte", "downwardAPI", "fc"),
    *("flexVolume", "configMap", "azureFile", "vsphereVolume", "photonPersistentDisk", "portworxVolume", "azureDisk"),
    *("storageos", "projected", "scaleIO", "csi", "ephemeral", "image"),
)
# Of a claim that is made for a volume, only labels and annotations are taken from its template.
_OWN_METADATA = (
    *("name", "generateName", "namespace", "selfLink", "uid", "resourceVersion", "generation", "creationTimestamp"),
    *("deletionTimestamp", "deletionGracePeriodSeconds", "ownerReferences", "finalizers", "managedFields"),
)
# The names that the errors about a second type have in Kubernetes, if they are not the fields' own.
_FORBIDDEN_NAMES = {"downwardAPI": "downwarAPI", "cephfs": "cephFS"}
_CONFLICT = "conflicting duplicate paths"
_MODE = "must be a number between 0 and 0777 (octal), both inclusive"
_MIN_TOKEN_SECONDS, _MAX_TOKEN_SECONDS = 600, 2**32


def validate_volumes(path: str, volumes: Sequence[JsonObject]) -> tuple[list[FieldError], dict[str, str]]:
    """Validate volumes of a pod. Return the errors, and the types of the valid volumes, which containers may use."""
    errors = []
    types: dict[str, str] = {}
    for index, volume in enumerate(volumes):
        item = f"{path}[{index}]"
        own = _validate_source(item, volume)
        name = volume.get("name", "")
        own.extend(field.required_valid(f"{item}.name", name, check_dns1123_label))
        if name and name in types:
            own.append(field.duplicate(f"{item}.name", name))
        if not own:
            types[name] = next(source for source in _SOURCES if source in volume)
        errors.extend(own)
    return errors, types


def _validate_source(path: str, volume: JsonObject) -> list[FieldError]:
    given = [name for name in _SOURCES if name in volume]
    if not given:
        return [field.required(path, "must specify a volume type")]
    errors = _validate_given(path, given[0], volume)
    for name in given[1:]:
        item = f"{path}.{_FORBIDDEN_NAMES.get(name, name)}"
        errors.append(field.forbidden(item, "may not specify more than 1 volume type"))
    return errors


def _validate_given(path: str, kind: str, volume: JsonObject) -> list[FieldError]:
    errors: list[FieldError] = []
    source, item = volume[kind], f"{path}.{kind}"
    match kind:
        case "configMap" | "secret":
            name = "name" if kind == "configMap" else "secretName"
            if not source.get(name):
                errors.append(field.required(f"{item}.{name}"))
            errors.extend(_validate_mode(f"{item}.defaultMode", source.get("defaultMode")))
            errors.extend(_validate_items(f"{item}.items", source.get("items", ())))
        case "emptyDir":
            limit = amount_of(source.get("sizeLimit", 0))
            if limit is None or limit < 0:
                detail = "SizeLimit field must be a valid resource quantity"
                errors.append(field.forbidden(f"{item}.sizeLimit", detail))
        case "hostPath":
            errors.extend(_validate_host_path(item, source))
        case "downwardAPI":
            errors.extend(_validate_mode(f"{item}.defaultMode", source.get("defaultMode")))
            for file in source.get("items", ()):
                errors.extend(_validate_downward_file(item, file))
        case "projected":
            errors.extend(_validate_mode(f"{item}.defaultMode", source.get("defaultMode")))
            errors.extend(_validate_projections(item, source.get("sources", ())))
        case "persistentVolumeClaim":
            if not source.get("claimName"):
                errors.append(field.required(f"{item}.claimName"))
        case "ephemeral":
            errors.extend(_validate_claim_template(f"{item}.volumeClaimTemplate", source.get("volumeClaimTemplate")))
        case "image":
            errors.extend(field.one_of(f"{item}.pullPolicy", source.get("pullPolicy"), PULL_POLICIES))
        case _:
            errors.extend(field.errors_below(path, validate_external_source, volume, kind))
    return errors


def _validate_claim_template(path: str, template: JsonObject | None) -> list[FieldError]:
    if template is None:
        return [field.required(path)]
    metadata = template.get("metadata", {})
    errors = field.errors_below(f"{path}.metadata.annotations", validate_annotations, metadata.get("annotations", {}))
    errors.extend(field.errors_below(f"{path}.metadata.labels", validate_labels, metadata.get("labels", {})))
    for name in _OWN_METADATA:
        if metadata.get(name):
            # Kubernetes makes the paths of the names of its Go fields.
            errors.append(field.forbidden(f"{path}.metadata.{'uID' if name == 'uid' else name}", "cannot be set"))
    return [*errors, *field.errors_below(f"{path}.spec", validate_claim_spec, template.get("spec", {}))]


def validate_image_references(path: str, volumes: Sequence[JsonObject]) -> list[FieldError]:
    """Validate that image volumes of a pod name an image. A template may leave it to who makes pods of it."""
    return [
        field.required(f"{path}[{index}].image.reference")
        for index, volume in enumerate(volumes)
        if "image" in volume and not volume["image"].get("reference")
    ]


def _validate_host_path(path: str, source: JsonObject) -> list[FieldError]:
    host_path = source.get("path", "")
    if not host_path:
        return [field.required(f"{path}.path")]
    errors = []
    if ".." in host_path.split("/"):
        errors.append(field.invalid(f"{path}.path", host_path, "must not contain '..'"))
    return [*errors, *field.one_of(f"{path}.type", source.get("type", ""), _HOST_PATH_TYPES)]


def _validate_mode(path: str, mode: int | None) -> list[FieldError]:
    return [] if mode is None or 0 <= mode <= 0o777 else [field.invalid(path, mode, _MODE)]


def _validate_items(path: str, items: Sequence[JsonObject]) -> list[FieldError]:
    errors = []
    for index, one in enumerate(items):
        item = f"{path}[{index}]"
        if not one.get("key"):
            errors.append(field.required(f"{item}.key"))
        errors.extend(_validate_file(item, one))
    return errors


def _validate_file(path: str, file: JsonObject) -> list[FieldError]:
    """Validate a file in a volume: its path must not leave the volume, and its mode must be valid."""
    return [*_validate_path(f"{path}.path", file.get("path", "")), *_validate_mode(f"{path}.mode", file.get("mode"))]


def _validate_path(path: str, name: str) -> list[FieldError]:
    """Validate the path of a file in a volume. Names that begin with `..` are the kubelet's own."""
    errors = field.required_valid(path, name, check_local_path)
    if name.startswith("..") and not name.startswith("../"):
        errors.append(field.invalid(path, name, "must not start with '..'"))
    return errors


def _validate_downward_file(path: str, file: JsonObject) -> list[FieldError]:
    """Validate a file of the downward API. `path` is the volume's: Kubernetes does not name the item."""
    errors = _validate_path(f"{path}.path", file.get("path", ""))
    if "fieldRef" in file:
        errors.extend(validate_field_ref(f"{path}.fieldRef", file["fieldRef"], _DOWNWARD_FIELDS))
        if "resourceFieldRef" in file:
            detail = "fieldRef and resourceFieldRef can not be specified simultaneously"
            errors.append(field.invalid(path, "resource", detail))
    elif "resourceFieldRef" in file:
        reference = file["resourceFieldRef"]
        errors.extend(validate_resource_field_ref(f"{path}.resourceFieldRef", reference, names_container=True))
    else:
        errors.append(field.required(path, "one of fieldRef and resourceFieldRef is required"))
    return [*errors, *_validate_mode(f"{path}.mode", file.get("mode"))]


def _validate_projections(path: str, sources: Sequence[JsonObject]) -> list[FieldError]:
    """Validate the sources of a projected volume. No two of them may write the same file."""
    errors = []
    files: set[str] = set()
    for index, source in enumerate(sources):
        item = f"{path}.sources[{index}]"
        for kind in ("secret", "configMap"):
            if kind in source:
                name, items = source[kind].get("name", ""), source[kind].get("items", ())
                if not name:
                    errors.append(field.required(f"{item}.{kind}.name"))
                errors.extend(_validate_items(f"{item}.{kind}.items", items))
                errors.extend(field.invalid(path, name, _CONFLICT) for _ in _take(files, items))
        if "downwardAPI" in source:
            items = source["downwardAPI"].get("items", ())
            for file in items:
                errors.extend(_validate_downward_file(f"{item}.downwardAPI", file))
            errors.extend(field.invalid(path, name, _CONFLICT) for name in _take(files, items))
        if "serviceAccountToken" in source:
            token = source["serviceAccountToken"]
            errors.extend(_validate_token(f"{item}.serviceAccountToken", token))
            errors.extend(_validate_path(f"{path}.path", token.get("path", "")))  # so in Kubernetes
        if len(source) > 1:
            errors.append(field.forbidden(item, "may not specify more than 1 volume type per source"))
    return errors


def _take(files: set[str], items: Sequence[JsonObject]) -> list[str]:
    """Add the items' paths to `files`, and return those that were there already."""
    conflicts = []
    for path in (item["path"] for item in items if item.get("path")):
        if path in files:
            conflicts.append(path)
        files.add(path)
    return conflicts


def _validate_token(path: str, token: JsonObject) -> list[FieldError]:
    seconds = token.get("expirationSeconds", _MIN_TOKEN_SECONDS)
    if seconds < _MIN_TOKEN_SECONDS:
        return [field.invalid(f"{path}.expirationSeconds", seconds, "may not specify a duration less than 10 minutes")]
    if seconds > _MAX_TOKEN_SECONDS:
        detail = "may not specify a duration larger than 2^32 seconds"
        return [field.invalid(f"{path}.expirationSeconds", seconds, detail)]
    return []
