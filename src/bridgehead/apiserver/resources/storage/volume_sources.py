"""Defaults and validation of a PersistentVolume's sources that need no rule of the whole volume.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidatePersistentVolumeSpec`, `SetDefaults_*VolumeSource`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from bridgehead.apiserver.resource import FieldError, JsonObject
from bridgehead.apiserver.resources.shared import external_volumes, field
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


def validate_other_source(path: str, kind: str, source: JsonObject, volume: str) -> list[FieldError]:
    """Validate a source of a `kind` that this module knows. `path` is that of the spec, `volume` the volume's name."""
    item = external_volumes.path_of(path, kind)
    errors = external_volumes.validate_external_source(item, kind, source)
    if kind == "iscsi":
        return errors + _validate_iscsi(item, source, volume)
    check = _CHECKS.get(kind)
    return errors + check(item, source) if check else errors


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


def _validate_storage_os(item: str, source: JsonObject) -> list[FieldError]:
    errors = [] if source.get("volumeName") else [field.required(f"{item}.volumeName")]
    for name in ("volumeName", "volumeNamespace"):
        if value := source.get(name):
            errors.extend(field.invalid_for(f"{item}.{name}", value, check_dns1123_label(value)))
    return errors + _validate_secret(item, source)


def _validate_iscsi(item: str, source: JsonObject, volume: str) -> list[FieldError]:
    errors = []
    if external_volumes.is_iscsi_name_too_long(source, volume):
        portal = source.get("targetPortal", "")
        errors.append(field.invalid(f"{item}.targetportal", portal, external_volumes.ISCSI_NAME_TOO_LONG))
    errors.extend(external_volumes.validate_iscsi(item, source, _validate_iscsi_name))
    errors.extend(_validate_secret(item, source, ("name",)))
    if "initiatorName" in source:
        errors.extend(_validate_iscsi_name(f"{item}.initiatorname", source["initiatorName"]))
    return errors


def _validate_iscsi_name(item: str, name: str) -> list[FieldError]:
    return [] if external_volumes.is_iscsi_name(name) else [field.invalid(item, name, "must be valid format")]


_CHECKS: Mapping[str, Callable[[str, JsonObject], list[FieldError]]] = {
    "azureFile": _validate_azure_file,
    "cinder": _validate_secret,
    "glusterfs": _validate_glusterfs,
    "storageos": _validate_storage_os,
}
