"""Defaults and validation of a PersistentVolume's sources that need no rule of the whole volume.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidatePersistentVolumeSpec`, `SetDefaults_*VolumeSource`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared import external_volumes
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


def set_source_defaults(spec: JsonObject) -> None:
    for name, defaults in _DEFAULTS.items():
        if name in spec:
            spec[name].update((key, value) for key, value in defaults.items() if not spec[name].get(key))
    for name, pointers in _POINTER_DEFAULTS.items():
        if name in spec:
            spec[name].update((key, value) for key, value in pointers.items() if key not in spec[name])


def validate_other_source(owner: Field, kind: str, volume: str) -> None:
    """Validate the source of a `kind` that this module knows, of a volume's spec. `volume` is the volume's name."""
    source = external_volumes.source_of(owner, kind)
    external_volumes.validate_external_source(source, kind)
    if kind == "iscsi":
        _validate_iscsi(source, volume)
    elif validate := _VALIDATORS.get(kind):
        validate(source)


def _validate_secret(source: Field, names: tuple[str, ...] = ("name", "namespace")) -> None:
    secret = source.at("secretRef")
    if secret.value is not None:
        for name in names:
            secret.at(name).must_be_set()


def _validate_glusterfs(source: Field) -> None:
    namespace = source.at("endpointsNamespace")
    if namespace.value == "":
        namespace.invalid("if the endpointnamespace is set, it must be a valid namespace name")
    else:
        namespace.must_pass(check_dns1123_label)


def _validate_azure_file(source: Field) -> None:
    namespace = source.at("secretNamespace")
    if namespace.value == "":
        namespace.required()


def _validate_storage_os(source: Field) -> None:
    source.at("volumeName").must_be_set()
    for name in ("volumeName", "volumeNamespace"):
        source.if_set(name).must_pass(check_dns1123_label)
    _validate_secret(source)


def _validate_iscsi(source: Field, volume: str) -> None:
    if external_volumes.is_iscsi_name_too_long(source.value, volume):
        portal = source.at("targetportal").showing(source.get("targetPortal", ""))
        portal.invalid(external_volumes.ISCSI_NAME_TOO_LONG)
    external_volumes.validate_iscsi(source, _validate_iscsi_name)
    _validate_secret(source, ("name",))
    if "initiatorName" in source.value:
        _validate_iscsi_name(source.at("initiatorname").showing(source.get("initiatorName")))


def _validate_iscsi_name(name: Field) -> None:
    if not external_volumes.is_iscsi_name(name.value):
        name.invalid("must be valid format")


_VALIDATORS: Mapping[str, Callable[[Field], object]] = {
    "azureFile": _validate_azure_file,
    "cinder": _validate_secret,
    "glusterfs": _validate_glusterfs,
    "storageos": _validate_storage_os,
}
