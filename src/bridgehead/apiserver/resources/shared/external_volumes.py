"""Validation of volumes in storage systems outside of the cluster, as far as pods and PersistentVolumes have it alike.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `validateVolumeSource`, `ValidatePersistentVolumeSpec`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import JsonObject

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


def source_of(owner: Field, kind: str) -> Field:
    """Return the source of type `kind` of its owner, under the path that its errors have."""
    return Field(owner.get(kind), _PATHS.get(kind, kind), owner)


def validate_external_source(source: Field, kind: str) -> None:
    """Validate a source whose type is `kind`."""
    for name in _REQUIRED.get(kind, ()):
        source.at(name).must_be_set()
    if validate := _VALIDATORS.get(kind):
        validate(source)


def validate_iscsi(source: Field, validate_name: Callable[[Field], object]) -> None:
    """Validate an iSCSI source but for its initiator, whose names `validate_name` validates, too."""
    name = source.at("iqn")
    if name.must_be_set():
        validate_name(name)
    source.at("lun").must_be_within(0, _MAX_LUN)
    if (source.get("chapAuthDiscovery") or source.get("chapAuthSession")) and "secretRef" not in source.value:
        source.at("secretRef").required()


def is_iscsi_name(name: str) -> bool | None:
    """Whether a name is well formed; None if it is of no known form."""
    form = _INITIATORS.get(name[:3])
    return None if form is None else form.search(name) is not None


def is_iscsi_name_too_long(source: JsonObject, volume: str) -> bool:
    """Whether the name that an initiator uses for a volume is too long."""
    name = f"{volume}:{source.get('targetPortal', '')}"
    return "initiatorName" in source and len(name.encode()) > _MAX_ISCSI_NAME


def _validate_partition(source: Field) -> None:
    partition = source.at("partition", 0)
    if not 0 <= partition.value <= _MAX_PARTITION:  # 0 is the whole disk
        partition.invalid(f"must be between 1 and {_MAX_PARTITION}, inclusive")


def _validate_fc(source: Field) -> None:
    targets, ids, lun = source.at("targetWWNs"), source.at("wwids"), source.at("lun")
    if not targets and not ids:
        targets.required("must specify either targetWWNs or wwids, but not both")
    if targets and ids:
        targets.invalid("targetWWNs and wwids can not be specified simultaneously")
    if targets:
        lun.must_exist("lun is required if targetWWNs is specified")
        lun.must_be_within(0, _MAX_LUN)


def _validate_flocker(source: Field) -> None:
    name, identity = source.at("datasetName", ""), source.at("datasetUUID")
    if not name and not identity:
        source.required("one of datasetName and datasetUUID is required")
    if name and identity:
        source.showing("resource").invalid("datasetName and datasetUUID can not be specified simultaneously")
    if "/" in name.value:
        name.invalid("must not contain '/'")


def _validate_quobyte(source: Field) -> None:
    registry = source.at("registry")
    if registry.must_be_set(_PAIRS):
        if len(source.get("tenant", "").encode()) > _MAX_TENANT:
            detail = f"must be a UUID and may not exceed a length of {_MAX_TENANT} characters"
            source.at("tenant").required(detail)
        else:
            for pair in registry.value.split(","):
                if not _HOST_AND_PORT.fullmatch(pair):
                    registry.invalid(_PAIRS)
    source.at("volume").must_be_set()


def _validate_flex(source: Field) -> None:
    for name, option in source.at("options").entries():
        if f".{name.partition('/')[0].lower()}".endswith(_RESERVED):
            option.showing(name).invalid("kubernetes.io and k8s.io namespaces are reserved")


def _validate_azure_disk(source: Field) -> None:
    source.at("cachingMode").must_be_one_of(_CACHING_MODES)
    kind, uri = source.at("kind"), source.at("diskURI", "")
    if kind.value is None:
        return
    kind.must_be_one_of(_DISK_KINDS)
    is_managed = kind.value == "Managed"
    if not uri.value.startswith("/subscriptions/" if is_managed else "https://"):
        uri.not_supported((_MANAGED_DISK if is_managed else _BLOB_DISK,))


_VALIDATORS: Mapping[str, Callable[[Field], object]] = {
    "gcePersistentDisk": _validate_partition,
    "awsElasticBlockStore": _validate_partition,
    "flocker": _validate_flocker,
    "quobyte": _validate_quobyte,
    "fc": _validate_fc,
    "flexVolume": _validate_flex,
    "azureDisk": _validate_azure_disk,
}
