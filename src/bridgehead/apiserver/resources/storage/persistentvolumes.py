"""PersistentVolume (core/v1): its entry in the table, its defaults and its rules.

Pure: no I/O, no clock, no randomness.
Source: Kubernetes `ValidatePersistentVolumeSpec`, `ValidatePersistentVolumeUpdate`.
"""

from __future__ import annotations

import posixpath

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import Column, JsonObject, Resource, StatusStrategy
from bridgehead.apiserver.resources.pods import validate_node_selector
from bridgehead.apiserver.resources.shared import field
from bridgehead.apiserver.resources.shared.columns import AGE, NAME, UNSET, at, text_column
from bridgehead.apiserver.resources.shared.node_labels import newer_name, warn_of_expressions
from bridgehead.apiserver.resources.shared.quantities import validate_quantity
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
        # Of a changed phase, admission sets the time.
        status, before = obj.setdefault("status", {}), old.get("status", {})
        if (
            subresource == "status"
            and "lastPhaseTransitionTime" in before
            and status.get("phase") == before.get("phase")
        ):
            status.setdefault("lastPhaseTransitionTime", before["lastPhaseTransitionTime"])

    def validate(self, obj: JsonObject) -> list[FieldError]:
        return validate_volume_spec("spec", obj.get("spec", {}), at(obj, "metadata", "name") or "")

    def validate_update(self, obj: JsonObject, old: JsonObject, subresource: str) -> list[FieldError]:
        spec, before = obj.get("spec", {}), old.get("spec", {})
        errors = []
        if _source(spec, before) != _source(before, before):
            detail = "spec.persistentvolumesource is immutable after creation"
            errors.append(field.forbidden("spec.persistentvolumesource", detail))
        if spec.get("volumeMode") != before.get("volumeMode"):
            errors.append(field.invalid("volumeMode", spec.get("volumeMode"), field.IMMUTABLE))
        affinity = before.get("nodeAffinity")
        if affinity is not None and not _is_same_affinity(spec.get("nodeAffinity"), affinity):
            detail = f"{field.IMMUTABLE}, except for updating from beta label to GA"
            errors.append(field.invalid("nodeAffinity", spec.get("nodeAffinity"), detail))
        if "volumeAttributesClassName" in before and "volumeAttributesClassName" not in spec:
            detail = "update from non-nil value to nil is forbidden"
            errors.append(field.forbidden("spec.volumeAttributesClassName", detail))
        return errors

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


def validate_volume_spec(path: str, spec: JsonObject, name: str = "", *, is_inline: bool = False) -> list[FieldError]:
    """Validate the spec of a volume `name`, or of one without a name that a VolumeAttachment contains."""
    errors = field.errors_below(f"{path}.accessModes", validate_access_modes, spec.get("accessModes", ()))
    errors.extend(_validate_inline(path, spec) if is_inline else _validate_volume(path, spec))
    errors.extend(_validate_source(path, spec, name))
    if "volumeAttributesClassName" in spec:
        if spec["volumeAttributesClassName"]:
            errors.extend(
                field.errors_below(
                    f"{path}.volumeAttributesClassName", validate_class_name, spec.get("volumeAttributesClassName")
                )
            )
        else:
            errors.append(field.required(f"{path}.volumeAttributesClassName", "an empty string is disallowed"))
        if "csi" not in spec:
            errors.append(field.required(f"{path}.csi", "has to be specified when using volumeAttributesClassName"))
    return errors


def _validate_volume(path: str, spec: JsonObject) -> list[FieldError]:
    capacity = spec.get("capacity", {})
    errors = [] if capacity else [field.required(f"{path}.capacity")]
    if "storage" not in capacity or len(capacity) > 1:
        errors.append(field.not_supported(f"{path}.capacity", spec.get("capacity"), ("storage",)))
    for name, quantity in capacity.items():
        item = f"{path}.capacity[{name}]"
        errors.extend(
            field.errors_below(item, validate_quantity, quantity)
            or field.errors_below(item, validate_positive_quantity, quantity)
        )
    policy = spec.get("persistentVolumeReclaimPolicy", "")
    if policy:
        errors.extend(field.one_of(f"{path}.persistentVolumeReclaimPolicy", policy, _RECLAIM_POLICIES))
    if "nodeAffinity" in spec:
        item = f"{path}.nodeAffinity.required"
        if (required := spec["nodeAffinity"].get("required")) is None:
            errors.append(field.required(item, "must specify required node constraints"))
        else:
            errors.extend(field.errors_below(item, validate_node_selector, required))
    if policy == "Recycle" and posixpath.normpath(at(spec, "hostPath", "path") or ".") == "/":
        detail = "may not be 'recycle' for a hostPath mount of '/'"
        errors.append(field.forbidden(f"{path}.persistentVolumeReclaimPolicy", detail))
    errors.extend(field.errors_below(f"{path}.storageClassName", validate_class_name, spec.get("storageClassName")))
    if "volumeMode" in spec:
        errors.extend(field.one_of(f"{path}.volumeMode", spec["volumeMode"], VOLUME_MODES))
    return errors


def _validate_inline(path: str, spec: JsonObject) -> list[FieldError]:
    context = "in the context of inline volumes"
    errors = [
        field.forbidden(f"{path}.{name}", f"may not be specified {context}") for name in _NOT_INLINE if name in spec
    ]
    if "csi" not in spec:
        errors.append(field.required(f"{path}.csi", f"has to be specified {context}"))
    if spec.get("persistentVolumeReclaimPolicy", "Retain") not in ("", "Retain"):
        errors.append(field.forbidden(f"{path}.persistentVolumeReclaimPolicy", f"may only be Retain {context}"))
    errors.extend(
        field.forbidden(f"{path}.{name}", f"may not be specified {context}")
        for name in ("nodeAffinity", "storageClassName")
        if spec.get(name)
    )
    if spec.get("volumeMode", "Filesystem") != "Filesystem":
        detail = f"may not specify volumeMode other than Filesystem {context}"
        errors.append(field.forbidden(f"{path}.volumeMode", detail))
    return errors


def _validate_source(path: str, spec: JsonObject, volume: str) -> list[FieldError]:
    given = [name for name in _SOURCES if name in spec]
    if not given:
        return [field.required(path, "must specify a volume type")]
    kind = given[0]
    item, source = f"{path}.{kind}", spec[kind]
    errors = [field.forbidden(f"{path}.{name}", "may not specify more than 1 volume type") for name in given[1:]]
    match kind:
        case "hostPath":
            errors.extend(_validate_path(item, source))
            errors.extend(field.one_of(f"{item}.type", source.get("type", ""), _HOST_PATH_TYPES))
        case "local":
            errors.extend(_validate_path(item, source))
            if not at(spec, "nodeAffinity", "required"):
                errors.append(field.required(f"{path}.nodeAffinity", "Local volume requires node affinity"))
        case "nfs":
            errors.extend(field.required(f"{item}.{name}") for name in ("server", "path") if not source.get(name))
            if not source.get("path", "").startswith("/"):
                errors.append(field.invalid(f"{item}.path", source.get("path", ""), "must be an absolute path"))
        case "csi":
            errors.extend(field.errors_below(f"{item}.driver", validate_driver_name, source.get("driver", "")))
            if not source.get("volumeHandle"):
                errors.append(field.required(f"{item}.volumeHandle"))
            for secret in _SECRETS:
                if secret in source:
                    name, namespace = (source[secret].get(part, "") for part in ("name", "namespace"))
                    errors.extend(field.required_valid(f"{item}.{secret}.name", name, check_dns1123_subdomain))
                    errors.extend(field.required_valid(f"{item}.{secret}.namespace", namespace, check_dns1123_label))
        case _:
            errors.extend(field.errors_below(path, validate_other_source, spec, kind, volume))
    return errors


def _validate_path(path: str, source: JsonObject) -> list[FieldError]:
    value = source.get("path", "")
    if not value:
        return [field.required(f"{path}.path")]
    if ".." in value.split("/"):
        return [field.invalid(f"{path}.path", value, "must not contain '..'")]
    return []


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
