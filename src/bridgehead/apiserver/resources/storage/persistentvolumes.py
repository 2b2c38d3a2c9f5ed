"""PersistentVolume (core/v1): its entry in the table, its defaults and its rules.

Pure: no I/O, no clock, no randomness.
Source: Kubernetes `ValidatePersistentVolumeSpec`, `ValidatePersistentVolumeUpdate`.
"""

from __future__ import annotations

import posixpath

from bridgehead.apiserver.field import IMMUTABLE, Field
from bridgehead.apiserver.resource import Column, JsonObject, Resource, StatusStrategy
from bridgehead.apiserver.resources.pods import validate_node_selector
from bridgehead.apiserver.resources.shared.columns import AGE, NAME, UNSET, at, text_column
from bridgehead.apiserver.resources.shared.node_labels import newer_name, warn_of_expressions
from bridgehead.apiserver.resources.shared.quantity_rules import validate_quantity
from bridgehead.apiserver.resources.shared.storage_rules import (
    BETA_CLASS_ANNOTATION,
    CLASS_ANNOTATION_WARNING,
    VOLUME_MODES,
    access_modes_text,
    class_of,
    phase_of,
    validate_access_modes,
    validate_class_name,
    validate_driver_name,
    validate_positive_quantity,
)
from bridgehead.objects.names import check_dns1123_label, check_dns1123_subdomain

from .volume_sources import set_source_defaults, validate_other_source

_SOURCES = (
    *("hostPath", "gcePersistentDisk", "awsElasticBlockStore", "glusterfs", "flocker", "nfs", "rbd", "quobyte"),
    *("cephfs", "iscsi", "cinder", "fc", "flexVolume", "azureFile", "vsphereVolume", "photonPersistentDisk"),
    *("portworxVolume", "azureDisk", "scaleIO", "local", "storageos", "csi"),
)
_RECLAIM_POLICIES = ("Delete", "Recycle", "Retain")
_HOST_PATH_TYPES = (
    *("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"),
)
_SECRETS = (
    *("controllerPublishSecretRef", "controllerExpandSecretRef", "nodePublishSecretRef", "nodeExpandSecretRef"),
)
_NOT_INLINE = ("claimRef", "capacity")
# Sources without a plug-in: the release that deprecated them, and that from which they have no function.
_REMOVED = {
    "cephfs": ("cephfs", "v1.28", "v1.31"),
    "photonPersistentDisk": ("photonPersistentDisk", "v1.11", "v1.16"),
    "scaleIO": ("scaleIO", "v1.16", "v1.22"),
    "storageos": ("storageOS", "v1.22", "v1.25"),
    "glusterfs": ("glusterfs", "v1.25", "v1.26"),
    "rbd": ("rbd", "v1.28", "v1.31"),
}


class PersistentVolumeStrategy(StatusStrategy):
    def default(self, obj: JsonObject) -> None:
        spec = obj.setdefault("spec", {})
        spec["persistentVolumeReclaimPolicy"] = spec.get("persistentVolumeReclaimPolicy") or "Retain"
        spec.setdefault("volumeMode", "Filesystem")
        set_source_defaults(spec)
        status = obj.setdefault("status", {})
        status["phase"] = status.get("phase") or "Pending"

    def prepare_create(self, obj: JsonObject) -> None:
        obj["status"] = {"phase": "Pending"}
        if created := at(obj, "metadata", "creationTimestamp"):
            obj["status"]["lastPhaseTransitionTime"] = created

    def prepare_update(self, obj: JsonObject, old: JsonObject, subresource: str) -> None:
        super().prepare_update(obj, old, subresource)
        # Admission sets the time of a changed phase.
        status, before = obj.setdefault("status", {}), old.get("status", {})
        if (
            subresource == "status"
            and "lastPhaseTransitionTime" in before
            and status.get("phase") == before.get("phase")
        ):
            status.setdefault("lastPhaseTransitionTime", before["lastPhaseTransitionTime"])

    def validate(self, obj: Field) -> None:
        validate_volume_spec(obj.at("spec", {}), at(obj.value, "metadata", "name") or "")

    def validate_update(self, obj: Field, old: JsonObject, subresource: str) -> None:
        spec, before = obj.at("spec", {}), old.get("spec", {})
        if _source(spec.value, before) != _source(before, before):
            spec.at("persistentvolumesource").forbidden("spec.persistentvolumesource is immutable after creation")
        obj.at("volumeMode").showing(spec.get("volumeMode")).must_not_change(before.get("volumeMode"))
        affinity = before.get("nodeAffinity")
        if affinity is not None and not _is_same_affinity(spec.get("nodeAffinity"), affinity):
            detail = f"{IMMUTABLE}, except for updating from beta label to GA"
            obj.at("nodeAffinity").showing(spec.get("nodeAffinity")).invalid(detail)
        if "volumeAttributesClassName" in before and "volumeAttributesClassName" not in spec.value:
            spec.at("volumeAttributesClassName").forbidden("update from non-nil value to nil is forbidden")

    def warnings(self, obj: JsonObject) -> list[str]:
        spec = obj.get("spec", {})
        has_annotation = BETA_CLASS_ANNOTATION in obj["metadata"].get("annotations", {})
        warnings = [CLASS_ANNOTATION_WARNING] if has_annotation else []
        if spec.get("persistentVolumeReclaimPolicy") == "Recycle":
            warnings.append(
                "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the "
                "recommended approach is to use dynamic provisioning."
            )
        terms = at(spec, "nodeAffinity", "required", "nodeSelectorTerms") or ()
        for index, term in enumerate(terms):
            path = f"spec.nodeAffinity.required.nodeSelectorTerms[{index}]"
            warnings.extend(warn_of_expressions(path, term.get("matchExpressions", ())))
        warnings.extend(
            f"spec.{shown}: deprecated in {deprecated}, non-functional in {removed}+"
            for name, (shown, deprecated, removed) in _REMOVED.items()
            if name in spec
        )
        return warnings


def _is_same_affinity(affinity: JsonObject | None, before: JsonObject) -> bool:
    """Whether two affinities are equal but for newer names of labels."""
    if affinity == before:
        return True
    new, old = (at(one, "required", "nodeSelectorTerms") or () for one in (affinity, before))
    return len(new) == len(old) and all(map(_is_same_term, new, old))


def _is_same_term(term: JsonObject, before: JsonObject) -> bool:
    new, old = term.get("matchExpressions", ()), before.get("matchExpressions", ())
    return (
        len(new) == len(old)
        and term.get("matchFields") == before.get("matchFields")
        and all(
            one == other or one == {**other, "key": newer_name(other.get("key", ""))}
            for one, other in zip(new, old, strict=True)
        )
    )


def _source(spec: JsonObject, before: JsonObject) -> JsonObject:
    """Return the volume's source. A CSI volume without a Secret for its expansion may get one later."""
    source = {name: spec[name] for name in _SOURCES if name in spec}
    if "csi" in source and "controllerExpandSecretRef" not in before.get("csi", {}):
        source["csi"] = {k: v for k, v in source["csi"].items() if k != "controllerExpandSecretRef"}
    return source


def validate_volume_spec(spec: Field, name: str = "", *, is_inline: bool = False) -> None:
    """Validate the spec of a volume `name`, or of one without a name that a VolumeAttachment contains."""
    validate_access_modes(spec.at("accessModes"))
    if is_inline:
        _validate_inline(spec)
    else:
        _validate_volume(spec)
    _validate_source(spec, name)
    class_name = spec.at("volumeAttributesClassName")
    if class_name.value is not None:
        if class_name.must_be_set("an empty string is disallowed"):
            validate_class_name(class_name)
        spec.at("csi").must_exist("has to be specified when using volumeAttributesClassName")


def _validate_volume(spec: Field) -> None:
    capacity, policy = spec.at("capacity"), spec.if_set("persistentVolumeReclaimPolicy")
    capacity.must_be_set()
    if list(capacity.value or ()) != ["storage"]:
        capacity.not_supported(("storage",))
    for _, quantity in capacity.entries():
        if validate_quantity(quantity):
            validate_positive_quantity(quantity)
    policy.must_be_one_of(_RECLAIM_POLICIES)
    if "nodeAffinity" in spec.value:
        required = spec.at("nodeAffinity").at("required")
        if required.must_exist("must specify required node constraints"):
            validate_node_selector(required)
    if policy.value == "Recycle" and posixpath.normpath(at(spec.value, "hostPath", "path") or ".") == "/":
        policy.forbidden("may not be 'recycle' for a hostPath mount of '/'")
    validate_class_name(spec.at("storageClassName"))
    spec.at("volumeMode").must_be_one_of(VOLUME_MODES)


def _validate_inline(spec: Field) -> None:
    context = "in the context of inline volumes"
    spec.must_have_none_of(_NOT_INLINE, f"may not be specified {context}")
    spec.at("csi").must_exist(f"has to be specified {context}")
    if spec.get("persistentVolumeReclaimPolicy", "Retain") not in ("", "Retain"):
        spec.at("persistentVolumeReclaimPolicy").forbidden(f"may only be Retain {context}")
    for name in ("nodeAffinity", "storageClassName"):
        spec.at(name).must_not_be_set(f"may not be specified {context}")
    if spec.get("volumeMode", "Filesystem") != "Filesystem":
        spec.at("volumeMode").forbidden(f"may not specify volumeMode other than Filesystem {context}")


def _validate_source(spec: Field, volume: str) -> None:
    kind = spec.must_have_one_of(_SOURCES, "volume type")
    if kind is None:
        return
    source = spec.at(kind)
    match kind:
        case "hostPath":
            _validate_path(source.at("path"))
            source.at("type").must_be_one_of(_HOST_PATH_TYPES)
        case "local":
            _validate_path(source.at("path"))
            affinity = spec.at("nodeAffinity")
            if not affinity.get("required"):
                affinity.required("Local volume requires node affinity")
        case "nfs":
            source.at("server").must_be_set()
            path = source.at("path", "")
            path.must_be_set()
            if not path.value.startswith("/"):
                path.invalid("must be an absolute path")
        case "csi":
            validate_driver_name(source.at("driver", ""))
            source.at("volumeHandle").must_be_set()
            for secret in _SECRETS:
                if secret in source.value:
                    source.at(secret).at("name").must_be_set_and_pass(check_dns1123_subdomain)
                    source.at(secret).at("namespace").must_be_set_and_pass(check_dns1123_label)
        case _:
            validate_other_source(spec, kind, volume)


def _validate_path(path: Field) -> None:
    if path.must_be_set() and ".." in path.value.split("/"):
        path.invalid("must not contain '..'")


def _claim_cell(volume: JsonObject, now: float) -> str:
    claim = at(volume, "spec", "claimRef")
    return f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else ""


RESOURCE = Resource(
    group="",
    version="v1",
    kind="PersistentVolume",
    plural="persistentvolumes",
    singular="persistentvolume",
    namespaced=False,
    short_names=("pv",),
    subresources=("status",),
    strategy=PersistentVolumeStrategy(),
    columns=(
        NAME,
        text_column("Capacity", "spec", "capacity", "storage", empty="0"),
        Column("Access Modes", lambda volume, now: access_modes_text(at(volume, "spec", "accessModes") or ())),
        text_column("Reclaim Policy", "spec", "persistentVolumeReclaimPolicy"),
        Column("Status", lambda volume, now: phase_of(volume)),
        Column("Claim", _claim_cell),
        Column("StorageClass", lambda volume, now: class_of(volume)),
        text_column("VolumeAttributesClass", "spec", "volumeAttributesClassName", empty=UNSET),
        text_column("Reason", "status", "reason"),
        AGE,
        text_column("VolumeMode", "spec", "volumeMode", empty=UNSET, priority=1),
    ),
    returns_deleted=True,
    check_name=check_dns1123_subdomain,
)
