"""Defaults and validation of a PersistentVolume's sources that need no rule of the whole volume.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidatePersistentVolumeSpec`, `SetDefaults_*VolumeSource`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from bridgehead.apiserver.resource import FieldError, JsonObject
from bridgehead.apiserver.resources.shared import field
from bridgehead.objects.names import check_dns1123_label

# Set where the field is absent or has its zero value.
_DEFAULTS: Mapping[str, Mapping[str, str]] = {
    "hostPath": {"type": ""},
    "iscsi": {"iscsiInterface": "default"},
    "rbd": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    "scaleIO": {"storageMode": "ThinProvisioned", "fsType": "xfs"},
}
# Set where the field is absent.
_POINTER_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "azureDisk": {"cachingMode": "ReadWrite", "kind": "Shared", "fsType": "ext4", "readOnly": False},
}
_REQUIRED: Mapping[str, tuple[str, ...]] = {
    "awsElasticBlockStore": ("volumeID",),
    "azureDisk": ("diskName", "diskURI"),
    "azureFile": ("secretName", "shareName"),
    "cephfs": ("monitors",),
    "cinder": ("volumeID",),
    "flexVolume": ("driver",),
    "gcePersistentDisk": ("pdName",),
    "glusterfs": ("endpoints", "path"),
    "photonPersistentDisk": ("pdID",),
    "portworxVolume": ("volumeID",),
    "rbd": ("monitors", "image"),
    "scaleIO": ("gateway", "system", "volumeName"),
    "storageos": ("volumeName",),
    "vsphereVolume": ("volumePath",),
}
# The paths of fields in Kubernetes' error texts, where they are not those of the object.
_PATHS = {"gcePersistentDisk": "persistentDisk"}

_HOST_PORTS = "must be a host:port pair or multiple pairs separated by commas"
_HOST_PORT = re.compile(r"[^:\[\]]*:[^:\[\]]*|\[[^\[\]]*\]:[^:\[\]]*")
_ISCSI_NAMES = {
    "iqn": re.compile(r"iqn\.[0-9]{4}-[0-9]{2}\.[A-Za-z0-9.-]+(:[^,;*&$|\s]+)$"),
    "eui": re.compile(r"^eui.[A-Za-z0-9]{16}$"),
    "naa": re.compile(r"^naa.[A-Za-z0-9]{32}$"),
}
_LONGEST_TARGET = 64
_MANAGED_DISK = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
_BLOB = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"


def set_source_defaults(spec: JsonObject) -> None:
    for name, defaults in _DEFAULTS.items():
        if name in spec:
            spec[name].update((key, value) for key, value in defaults.items() if not spec[name].get(key))
    for name, pointers in _POINTER_DEFAULTS.items():
        if name in spec:
            spec[name].update((key, value) for key, value in pointers.items() if key not in spec[name])


def validate_other_source(path: str, kind: str, source: JsonObject, volume: str) -> list[FieldError]:
    """Validate a source of a `kind` that this module knows. `path` is that of the spec, `volume` the volume's name."""
    item = f"{path}.{_PATHS.get(kind, kind)}"
    errors = [field.required(f"{item}.{name}") for name in _REQUIRED.get(kind, ()) if not source.get(name)]
    if kind == "iscsi":
        return errors + _validate_iscsi(item, source, volume)
    check = _CHECKS.get(kind)
    return errors + check(item, source) if check else errors


def _validate_partition(item: str, source: JsonObject) -> list[FieldError]:
    partition = source.get("partition", 0)
    if 0 <= partition <= 255:  # 0 is the whole disk
        return []
    return [field.invalid(f"{item}.partition", partition, "must be between 1 and 255, inclusive")]


def _validate_secret(item: str, source: JsonObject, names: tuple[str, ...] = ("name", "namespace")) -> list[FieldError]:
    secret = source.get("secretRef")
    if secret is None:
        return []
    return [field.required(f"{item}.secretRef.{name}") for name in names if not secret.get(name)]


def _validate_glusterfs(item: str, source: JsonObject) -> list[FieldError]:
    namespace = source.get("endpointsNamespace")
    if namespace is None:
        return []
    where = f"{item}.endpointsNamespace"
    if not namespace:
        return [field.invalid(where, "", "if the endpointnamespace is set, it must be a valid namespace name")]
    return field.invalid_for(where, namespace, check_dns1123_label(namespace))


def _validate_azure_file(item: str, source: JsonObject) -> list[FieldError]:
    return [field.required(f"{item}.secretNamespace")] if source.get("secretNamespace") == "" else []


def _validate_azure_disk(item: str, source: JsonObject) -> list[FieldError]:
    errors = []
    kinds = {"cachingMode": ("None", "ReadOnly", "ReadWrite"), "kind": ("Dedicated", "Managed", "Shared")}
    for name, supported in kinds.items():
        if name in source:
            errors.extend(field.one_of(f"{item}.{name}", source[name], supported))
    uri, is_managed = source.get("diskURI", ""), source.get("kind") == "Managed"
    if "kind" in source and not uri.startswith("/subscriptions/" if is_managed else "https://"):
        errors.append(field.not_supported(f"{item}.diskURI", uri, (_MANAGED_DISK if is_managed else _BLOB,)))
    return errors


def _validate_flex_volume(item: str, source: JsonObject) -> list[FieldError]:
    errors = []
    for key in source.get("options", {}):
        domain = f".{key.partition('/')[0].lower()}"
        if domain.endswith((".kubernetes.io", ".k8s.io")):
            detail = "kubernetes.io and k8s.io namespaces are reserved"
            errors.append(field.invalid(f"{item}.options[{key}]", key, detail))
    return errors


def _validate_storage_os(item: str, source: JsonObject) -> list[FieldError]:
    errors = []
    for name in ("volumeName", "volumeNamespace"):
        if value := source.get(name):
            errors.extend(field.invalid_for(f"{item}.{name}", value, check_dns1123_label(value)))
    return errors + _validate_secret(item, source)


def _validate_quobyte(item: str, source: JsonObject) -> list[FieldError]:
    registry, errors = source.get("registry", ""), []
    if not registry:
        errors.append(field.required(f"{item}.registry", _HOST_PORTS))
    elif len(source.get("tenant", "")) > 64:
        detail = "must be a UUID and may not exceed a length of 64 characters"
        errors.append(field.required(f"{item}.tenant", detail))
    else:
        wrong = [pair for pair in registry.split(",") if not _HOST_PORT.fullmatch(pair)]
        errors.extend(field.invalid(f"{item}.registry", registry, _HOST_PORTS) for _ in wrong)
    return errors if source.get("volume") else [*errors, field.required(f"{item}.volume")]


def _validate_flocker(item: str, source: JsonObject) -> list[FieldError]:
    name, uuid, errors = source.get("datasetName", ""), source.get("datasetUUID", ""), []
    if not name and not uuid:
        errors.append(field.required(item, "one of datasetName and datasetUUID is required"))
    if name and uuid:
        detail = "datasetName and datasetUUID can not be specified simultaneously"
        errors.append(field.invalid(item, "resource", detail))
    return [*errors, field.invalid(f"{item}.datasetName", name, "must not contain '/'")] if "/" in name else errors


def _validate_fc(item: str, source: JsonObject) -> list[FieldError]:
    names, identifiers, errors = source.get("targetWWNs"), source.get("wwids"), []
    if not names and not identifiers:
        errors.append(field.required(f"{item}.targetWWNs", "must specify either targetWWNs or wwids, but not both"))
    if names and identifiers:
        detail = "targetWWNs and wwids can not be specified simultaneously"
        errors.append(field.invalid(f"{item}.targetWWNs", names, detail))
    if names and "lun" not in source:
        errors.append(field.required(f"{item}.lun", "lun is required if targetWWNs is specified"))
    elif names:
        errors.extend(field.within(f"{item}.lun", source["lun"], 0, 255))
    return errors


def _validate_iscsi(item: str, source: JsonObject, volume: str) -> list[FieldError]:
    portal, name, initiator = source.get("targetPortal", ""), source.get("iqn", ""), source.get("initiatorName")
    errors = [] if portal else [field.required(f"{item}.targetPortal")]
    if initiator is not None and len(f"{volume}:{portal}".encode()) > _LONGEST_TARGET:
        detail = (
            "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is "
            "specified."
        )
        errors.append(field.invalid(f"{item}.targetportal", portal, detail))
    errors.extend(_validate_iscsi_name(f"{item}.iqn", name) if name else [field.required(f"{item}.iqn")])
    errors.extend(field.within(f"{item}.lun", source.get("lun", 0), 0, 255))
    if (source.get("chapAuthDiscovery") or source.get("chapAuthSession")) and "secretRef" not in source:
        errors.append(field.required(f"{item}.secretRef"))
    errors.extend(_validate_secret(item, source, ("name",)))
    if initiator is not None:
        errors.extend(_validate_iscsi_name(f"{item}.initiatorname", initiator))
    return errors


def _validate_iscsi_name(item: str, name: str) -> list[FieldError]:
    form = _ISCSI_NAMES.get(name[:3])
    return [] if form and form.search(name) else [field.invalid(item, name, "must be valid format")]


_CHECKS: Mapping[str, Callable[[str, JsonObject], list[FieldError]]] = {
    "awsElasticBlockStore": _validate_partition,
    "azureDisk": _validate_azure_disk,
    "azureFile": _validate_azure_file,
    "cinder": _validate_secret,
    "fc": _validate_fc,
    "flexVolume": _validate_flex_volume,
    "flocker": _validate_flocker,
    "gcePersistentDisk": _validate_partition,
    "glusterfs": _validate_glusterfs,
    "quobyte": _validate_quobyte,
    "storageos": _validate_storage_os,
}
