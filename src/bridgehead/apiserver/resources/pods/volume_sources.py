"""Validation of the types of volumes that storage systems outside of the cluster provide.

Called by `volume_validation`. Pure: no I/O, no clock, no randomness. Source: Kubernetes `validateVolumeSource` and what
it calls.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from bridgehead.apiserver.resource import FieldError, JsonObject
from bridgehead.apiserver.resources.shared import field
from bridgehead.apiserver.resources.shared.keys import check_local_path
from bridgehead.apiserver.resources.shared.storage_rules import validate_driver_name
from bridgehead.objects.names import check_dns1123_label, check_dns1123_subdomain

# Fields that must not be empty, in the order of their errors.
_REQUIRED: Mapping[str, tuple[str, ...]] = {
    "gitRepo": ("repository",),
    "gcePersistentDisk": ("pdName",),
    "awsElasticBlockStore": ("volumeID",),
    "nfs": ("server", "path"),
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
    "iqn": re.compile(r"iqn\.\d{4}-\d{2}\.[0-9A-Za-z.-]+:[^,;*&$|\s]+$", re.ASCII),
    "eui": re.compile(r"^eui.[0-9A-Za-z]{16}$"),
    "naa": re.compile(r"^naa.[0-9A-Za-z]{32}$"),
}
_MAX_PARTITION, _MAX_LUN = 255, 255
_MAX_ISCSI_NAME = 64  # of the volume's name, a colon and the portal
_MAX_TENANT = 64
_CACHING_MODES = ("None", "ReadOnly", "ReadWrite")
_DISK_KINDS = ("Dedicated", "Managed", "Shared")
_MANAGED_DISK = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
_BLOB_DISK = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
_PAIRS = "must be a host:port pair or multiple pairs separated by commas"
_HOST_AND_PORT = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*):[^:\[\]]*")
_RESERVED = (".kubernetes.io", ".k8s.io")


def validate_external_source(path: str, kind: str, source: JsonObject, volume_name: str) -> list[FieldError]:
    """Validate the source of a volume whose type is `kind`. `path` is the volume's."""
    item = f"{path}.{_PATHS.get(kind, kind)}"
    errors = [field.required(f"{item}.{name}") for name in _REQUIRED.get(kind, ()) if not source.get(name)]
    if kind in _CHECKS:
        errors.extend(_CHECKS[kind](item, source))
    if kind == "iscsi" and "initiatorName" in source:
        portal = source.get("targetPortal", "")
        if len(f"{volume_name}:{portal}".encode()) > _MAX_ISCSI_NAME:
            detail = (
                "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if "
                "iscsi.initiatorName is specified."
            )
            errors.append(field.invalid(f"{path}.name", volume_name, detail))
    return errors


def _validate_partition(path: str, source: JsonObject) -> list[FieldError]:
    partition = source.get("partition", 0)
    if 0 <= partition <= _MAX_PARTITION:
        return []
    return [field.invalid(f"{path}.partition", partition, f"must be between 1 and {_MAX_PARTITION}, inclusive")]


def _validate_git(path: str, source: JsonObject) -> list[FieldError]:
    directory = source.get("directory", "")
    return field.invalid_for(f"{path}.directory", directory, check_local_path(directory))


def _validate_nfs(path: str, source: JsonObject) -> list[FieldError]:
    exported = source.get("path", "")
    return [] if exported.startswith("/") else [field.invalid(f"{path}.path", exported, "must be an absolute path")]


def _validate_iscsi(path: str, source: JsonObject) -> list[FieldError]:
    name = source.get("iqn", "")
    errors = _validate_initiator(f"{path}.iqn", name) if name else [field.required(f"{path}.iqn")]
    errors.extend(field.within(f"{path}.lun", source.get("lun", 0), 0, _MAX_LUN))
    if (source.get("chapAuthDiscovery") or source.get("chapAuthSession")) and "secretRef" not in source:
        errors.append(field.required(f"{path}.secretRef"))
    if "initiatorName" in source:
        errors.extend(_validate_initiator(f"{path}.initiatorname", source["initiatorName"]))
    return errors


def _validate_initiator(path: str, name: str) -> list[FieldError]:
    kind = name[:3]
    if kind not in _INITIATORS:
        return [field.invalid(path, name, "must be valid format starting with iqn, eui, or naa")]
    return [] if _INITIATORS[kind].search(name) else [field.invalid(path, name, "must be valid format")]


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
    if kind == "Managed" and not uri.startswith("/subscriptions/"):
        errors.append(field.not_supported(f"{path}.diskURI", uri, (_MANAGED_DISK,)))
    if kind != "Managed" and not uri.startswith("https://"):
        errors.append(field.not_supported(f"{path}.diskURI", uri, (_BLOB_DISK,)))
    return errors


def _validate_secret_name(path: str, source: JsonObject) -> list[FieldError]:
    if "secretRef" in source and not source["secretRef"].get("name"):
        return [field.required(f"{path}.secretRef.name")]
    return []


def _validate_storage_os(path: str, source: JsonObject) -> list[FieldError]:
    errors = field.required_valid(f"{path}.volumeName", source.get("volumeName", ""), check_dns1123_label)
    if namespace := source.get("volumeNamespace"):
        errors.extend(field.invalid_for(f"{path}.volumeNamespace", namespace, check_dns1123_label(namespace)))
    return [*errors, *_validate_secret_name(path, source)]


def _validate_csi(path: str, source: JsonObject) -> list[FieldError]:
    errors = validate_driver_name(f"{path}.driver", source.get("driver", ""))
    if "nodePublishSecretRef" in source:
        name = source["nodePublishSecretRef"].get("name")
        if not name:
            errors.append(field.required(f"{path}.nodePublishSecretRef.name"))
        else:
            errors.extend(field.invalid_for(f"{path}.name", name, check_dns1123_subdomain(name)))  # so in Kubernetes
    return errors


_CHECKS: Mapping[str, Callable[[str, JsonObject], list[FieldError]]] = {
    "gitRepo": _validate_git,
    "gcePersistentDisk": _validate_partition,
    "awsElasticBlockStore": _validate_partition,
    "nfs": _validate_nfs,
    "iscsi": _validate_iscsi,
    "flocker": _validate_flocker,
    "cinder": _validate_secret_name,
    "quobyte": _validate_quobyte,
    "fc": _validate_fc,
    "flexVolume": _validate_flex,
    "azureDisk": _validate_azure_disk,
    "storageos": _validate_storage_os,
    "csi": _validate_csi,
}
