"""Validation of volumes in storage systems outside of the cluster, as far as pods and PersistentVolumes have it alike.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `validateVolumeSource`, `ValidatePersistentVolumeSpec`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from bridgehead.apiserver.resource import FieldError, JsonObject

from . import field

# Fields that must not be empty, in the order of their errors.
_REQUIRED: Mapping[str, tuple[str, ...]] = {
    "gcePersistentDisk": ("pdName",),
    "awsElasticBlockStore": ("volumeID",),
    "iscsi": ("targetPortal",),
    "glusterfs": ("endpoints", "path"),
    "rbd": ("monitors", "image"),
    "cinder": ("volumeID",),
    "cephfs": ("monitors",),
    "flexVolume": ("driver",),
    "azureFile": ("secretName", "shareName"),
    "vsphereVolume": ("volumePath",),
    "photonPersistentDisk": ("pdID",),
    "portworxVolume": ("volumeID",),
    "azureDisk": ("diskName", "diskURI"),
    "scaleIO": ("gateway", "system", "volumeName"),
}
# Types whose errors have another name in their path than the field.
_PATHS = {"gcePersistentDisk": "persistentDisk"}
_INITIATORS = {
    "iqn": re.compile(r"iqn\.[0-9]{4}-[0-9]{2}\.[0-9A-Za-z.-]+:[^,;*&$|\s]+$"),
    "eui": re.compile(r"^eui.[0-9A-Za-z]{16}$"),
    "naa": re.compile(r"^naa.[0-9A-Za-z]{32}$"),
}
_MAX_PARTITION, _MAX_LUN = 255, 255
_MAX_ISCSI_NAME = 64  # bytes of the volume's name, a colon and the portal
_MAX_TENANT = 64
ISCSI_NAME_TOO_LONG = (
    "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if "
    "iscsi.initiatorName is specified."
)
_CACHING_MODES = ("None", "ReadOnly", "ReadWrite")
_DISK_KINDS = ("Dedicated", "Managed", "Shared")
_MANAGED_DISK = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
_BLOB_DISK = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
_PAIRS = "must be a host:port pair or multiple pairs separated by commas"
_HOST_AND_PORT = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*):[^:\[\]]*")
_RESERVED = (".kubernetes.io", ".k8s.io")


def path_of(path: str, kind: str) -> str:
    """Return the path that errors have of a source whose type is `kind`. `path` is that of its owner."""
    return f"{path}.{_PATHS.get(kind, kind)}"


def validate_external_source(path: str, kind: str, source: JsonObject) -> list[FieldError]:
    """Validate a source whose type is `kind`. `path` is that of `path_of`."""
    errors = [field.required(f"{path}.{name}") for name in _REQUIRED.get(kind, ()) if not source.get(name)]
    check = _CHECKS.get(kind)
    return errors + check(path, source) if check else errors


def validate_iscsi(
    path: str, source: JsonObject, validate_name: Callable[[str, str], list[FieldError]]
) -> list[FieldError]:
    """Validate an iSCSI source but for its initiator, whose names `validate_name` validates, too."""
    name = source.get("iqn", "")
    errors = validate_name(f"{path}.iqn", name) if name else [field.required(f"{path}.iqn")]
    errors.extend(field.within(f"{path}.lun", source.get("lun", 0), 0, _MAX_LUN))
    if (source.get("chapAuthDiscovery") or source.get("chapAuthSession")) and "secretRef" not in source:
        errors.append(field.required(f"{path}.secretRef"))
    return errors


def is_iscsi_name(name: str) -> bool | None:
    """Whether a name is well formed; None if it is of no known form."""
    form = _INITIATORS.get(name[:3])
    return None if form is None else form.search(name) is not None


def is_iscsi_name_too_long(source: JsonObject, volume: str) -> bool:
    """Whether the name that an initiator uses for a volume is too long."""
    name = f"{volume}:{source.get('targetPortal', '')}"
    return "initiatorName" in source and len(name.encode()) > _MAX_ISCSI_NAME


def _validate_partition(path: str, source: JsonObject) -> list[FieldError]:
    partition = source.get("partition", 0)
    if 0 <= partition <= _MAX_PARTITION:  # 0 is the whole disk
        return []
    return [field.invalid(f"{path}.partition", partition, f"must be between 1 and {_MAX_PARTITION}, inclusive")]


def _validate_fc(path: str, source: JsonObject) -> list[FieldError]:
    targets, ids = source.get("targetWWNs", []), source.get("wwids", [])
    item, errors = f"{path}.targetWWNs", []
    if not targets and not ids:
        errors.append(field.required(item, "must specify either targetWWNs or wwids, but not both"))
    if targets and ids:
        errors.append(field.invalid(item, targets, "targetWWNs and wwids can not be specified simultaneously"))
    if targets:
        if "lun" in source:
            errors.extend(field.within(f"{path}.lun", source["lun"], 0, _MAX_LUN))
        else:
            errors.append(field.required(f"{path}.lun", "lun is required if targetWWNs is specified"))
    return errors


def _validate_flocker(path: str, source: JsonObject) -> list[FieldError]:
    name, identity = source.get("datasetName", ""), source.get("datasetUUID", "")
    errors = []
    if not name and not identity:
        errors.append(field.required(path, "one of datasetName and datasetUUID is required"))
    if name and identity:
        detail = "datasetName and datasetUUID can not be specified simultaneously"
        errors.append(field.invalid(path, "resource", detail))
    if "/" in name:
        errors.append(field.invalid(f"{path}.datasetName", name, "must not contain '/'"))
    return errors


def _validate_quobyte(path: str, source: JsonObject) -> list[FieldError]:
    registry, item = source.get("registry", ""), f"{path}.registry"
    if not registry:
        errors = [field.required(item, _PAIRS)]
    elif len(source.get("tenant", "").encode()) > _MAX_TENANT:
        detail = f"must be a UUID and may not exceed a length of {_MAX_TENANT} characters"
        errors = [field.required(f"{path}.tenant", detail)]
    else:
        wrong = [pair for pair in registry.split(",") if not _HOST_AND_PORT.fullmatch(pair)]
        errors = [field.invalid(item, registry, _PAIRS) for _ in wrong]
    return errors if source.get("volume") else [*errors, field.required(f"{path}.volume")]


def _validate_flex(path: str, source: JsonObject) -> list[FieldError]:
    return [
        field.invalid(f"{path}.options[{option}]", option, "kubernetes.io and k8s.io namespaces are reserved")
        for option in source.get("options", {})
        if f".{option.partition('/')[0].lower()}".endswith(_RESERVED)
    ]


def _validate_azure_disk(path: str, source: JsonObject) -> list[FieldError]:
    mode, kind, uri = source.get("cachingMode"), source.get("kind"), source.get("diskURI", "")
    errors = [] if mode is None else field.one_of(f"{path}.cachingMode", mode, _CACHING_MODES)
    if kind is None:
        return errors
    errors.extend(field.one_of(f"{path}.kind", kind, _DISK_KINDS))
    is_managed = kind == "Managed"
    if not uri.startswith("/subscriptions/" if is_managed else "https://"):
        errors.append(field.not_supported(f"{path}.diskURI", uri, (_MANAGED_DISK if is_managed else _BLOB_DISK,)))
    return errors


_CHECKS: Mapping[str, Callable[[str, JsonObject], list[FieldError]]] = {
    "gcePersistentDisk": _validate_partition,
    "awsElasticBlockStore": _validate_partition,
    "flocker": _validate_flocker,
    "quobyte": _validate_quobyte,
    "fc": _validate_fc,
    "flexVolume": _validate_flex,
    "azureDisk": _validate_azure_disk,
}
