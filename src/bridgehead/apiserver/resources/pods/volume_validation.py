"""Validation of volumes in pods and pod templates.

Volume types that no node can provide are accepted, as in Kubernetes; the kubelet reports them.
Called by `pod_validation`. Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidateVolumes`.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared.claim_validation import validate_claim_spec
from bridgehead.apiserver.resources.shared.keys import check_local_path
from bridgehead.apiserver.resources.shared.metadata_validation import validate_annotations, validate_labels
from bridgehead.apiserver.resources.shared.quantity_rules import amount_of
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
# Types of volumes in the order of Kubernetes' `validateVolumeSource`: the first one given is the volume's type.
_SOURCES = (
    *("emptyDir", "hostPath", "gitRepo", "gcePersistentDisk", "awsElasticBlockStore", "secret", "nfs", "iscsi"),
    *("glusterfs", "flocker", "persistentVolumeClaim", "rbd", "cinder", "cephfs", "quobyte", "downwardAPI", "fc"),
    *("flexVolume", "configMap", "azureFile", "vsphereVolume", "photonPersistentDisk", "portworxVolume", "azureDisk"),
    *("storageos", "projected", "scaleIO", "csi", "ephemeral", "image"),
)
# Metadata that a claim for a volume does not take from its template, unlike labels and annotations.
_OWN_METADATA = (
    *("name", "generateName", "namespace", "selfLink", "uid", "resourceVersion", "generation", "creationTimestamp"),
    *("deletionTimestamp", "deletionGracePeriodSeconds", "ownerReferences", "finalizers", "managedFields"),
)
# The names that the errors about a second type have in Kubernetes, if they are not the fields' own.
_FORBIDDEN_NAMES = {"downwardAPI": "downwarAPI", "cephfs": "cephFS"}
_CONFLICT = "conflicting duplicate paths"
_MIN_TOKEN_SECONDS, _MAX_TOKEN_SECONDS = 600, 2**32


def validate_volumes(volumes: Field) -> dict[str, str]:
    """Validate volumes of a pod. Return the types of the valid ones by name, which containers may use."""
    types: dict[str, str] = {}
    for volume in volumes.each():
        if volume.must_obey(_validate_volume, types):
            types[volume.value["name"]] = _given_sources(volume)[0]
    return types


def _validate_volume(volume: Field, names: Container[str]) -> None:
    name, given = volume.at("name"), _given_sources(volume)
    if given:
        _validate_source(volume, given[0])
    else:
        volume.required("must specify a volume type")
    for kind in given[1:]:
        volume.at(_FORBIDDEN_NAMES.get(kind, kind)).forbidden("may not specify more than 1 volume type")
    name.must_be_set_and_pass(check_dns1123_label)
    if name and name.value in names:
        name.duplicate()


def _given_sources(volume: Field) -> list[str]:
    return [kind for kind in _SOURCES if kind in volume.value]


def _validate_source(volume: Field, kind: str) -> None:
    source = volume.at(kind)
    match kind:
        case "configMap" | "secret":
            source.at("name" if kind == "configMap" else "secretName").must_be_set()
            _validate_mode(source.at("defaultMode"))
            _validate_items(source.at("items"))
        case "emptyDir":
            limit = amount_of(source.get("sizeLimit", 0))
            if limit is None or limit < 0:
                source.at("sizeLimit").forbidden("SizeLimit field must be a valid resource quantity")
        case "hostPath":
            _validate_host_path(source)
        case "downwardAPI":
            _validate_mode(source.at("defaultMode"))
            _validate_downward_files(source)
        case "projected":
            _validate_mode(source.at("defaultMode"))
            _validate_projections(source)
        case "persistentVolumeClaim":
            source.at("claimName").must_be_set()
        case "ephemeral":
            _validate_claim_template(source.at("volumeClaimTemplate"))
        case "image":
            source.at("pullPolicy", "").must_be_one_of(PULL_POLICIES)
        case _:
            validate_external_source(volume, kind)


def _validate_claim_template(template: Field) -> None:
    if not template.must_exist():
        return
    metadata = template.at("metadata")
    validate_annotations(metadata.at("annotations"))
    validate_labels(metadata.at("labels"))
    for name in _OWN_METADATA:
        # Kubernetes makes the paths of the names of its Go fields.
        metadata.at("uID" if name == "uid" else name).showing(metadata.get(name)).must_not_be_set("cannot be set")
    validate_claim_spec(template.at("spec"))


def validate_image_references(volumes: Field) -> None:
    """Validate that image volumes of a pod name an image. A template may leave it to who makes pods of it."""
    for volume in volumes.each():
        if "image" in volume.value:
            volume.at("image").at("reference").must_be_set()


def _validate_host_path(source: Field) -> None:
    path = source.at("path")
    if path.must_be_set():
        if ".." in path.value.split("/"):
            path.invalid("must not contain '..'")
        source.at("type").must_be_one_of(_HOST_PATH_TYPES)


def _validate_mode(mode: Field) -> None:
    mode.must_be_within(0, 0o777, "must be a number between 0 and 0777 (octal), both inclusive")


def _validate_items(items: Field) -> None:
    """Validate the files in a volume: no path may leave the volume, and the modes must be valid."""
    for item in items.each():
        item.at("key").must_be_set()
        _validate_path(item.at("path", ""))
        _validate_mode(item.at("mode"))


def _validate_path(path: Field) -> None:
    """Validate the path of a file in a volume. Names that begin with `..` are the kubelet's own."""
    path.must_be_set_and_pass(check_local_path)
    if path.value.startswith("..") and not path.value.startswith("../"):
        path.invalid("must not start with '..'")


def _validate_downward_files(source: Field) -> None:
    """Validate the files of the downward API in a volume. Kubernetes does not name the item in errors."""
    for item in source.get("items", ()):
        _validate_downward_file(source.showing(item))


def _validate_downward_file(file: Field) -> None:
    _validate_path(file.at("path", ""))
    if "fieldRef" in file.value:
        validate_field_ref(file.at("fieldRef"), _DOWNWARD_FIELDS)
        if "resourceFieldRef" in file.value:
            file.showing("resource").invalid("fieldRef and resourceFieldRef can not be specified simultaneously")
    elif "resourceFieldRef" in file.value:
        validate_resource_field_ref(file.at("resourceFieldRef"), names_container=True)
    else:
        file.required("one of fieldRef and resourceFieldRef is required")
    _validate_mode(file.at("mode"))


def _validate_projections(projected: Field) -> None:
    """Validate the sources of a projected volume. No two of them may write the same file."""
    files: set[str] = set()
    for source in projected.at("sources").each():
        for kind in ("secret", "configMap"):
            if kind in source.value:
                referent = source.at(kind)
                name = referent.at("name", "")
                name.must_be_set()
                _validate_items(referent.at("items"))
                for _ in _take(files, referent.get("items", ())):
                    projected.showing(name.value).invalid(_CONFLICT)
        if "downwardAPI" in source.value:
            downward = source.at("downwardAPI")
            _validate_downward_files(downward)
            for path in _take(files, downward.get("items", ())):
                projected.showing(path).invalid(_CONFLICT)
        if "serviceAccountToken" in source.value:
            token = source.at("serviceAccountToken")
            seconds = token.at("expirationSeconds")
            seconds.must_be_at_least(_MIN_TOKEN_SECONDS, "may not specify a duration less than 10 minutes")
            seconds.must_be_at_most(_MAX_TOKEN_SECONDS, "may not specify a duration larger than 2^32 seconds")
            _validate_path(projected.at("path").showing(token.get("path", "")))  # so in Kubernetes
        if len(source.value) > 1:
            source.forbidden("may not specify more than 1 volume type per source")


def _take(files: set[str], items: Sequence[JsonObject]) -> list[str]:
    """Add the items' paths to `files`, and return those that were there already."""
    conflicts = []
    for path in (item["path"] for item in items if item.get("path")):
        if path in files:
            conflicts.append(path)
        files.add(path)
    return conflicts
