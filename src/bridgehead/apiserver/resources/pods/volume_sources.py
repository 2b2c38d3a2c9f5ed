"""Validation of the types of volumes that storage systems outside of the cluster provide.

Called by `volume_validation`. Pure: no I/O, no clock, no randomness. Source: Kubernetes `validateVolumeSource` and what
it calls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bridgehead.apiserver.resource import FieldError, JsonObject
from bridgehead.apiserver.resources.shared import external_volumes, field
from bridgehead.apiserver.resources.shared.keys import check_local_path
from bridgehead.apiserver.resources.shared.storage_rules import validate_driver_name
from bridgehead.objects.names import check_dns1123_label, check_dns1123_subdomain


def validate_external_source(path: str, kind: str, source: JsonObject, volume_name: str) -> list[FieldError]:
    """Validate the source of a volume whose type is `kind`. `path` is the volume's."""
    item = external_volumes.path_of(path, kind)
    errors = external_volumes.validate_external_source(item, kind, source)
    if kind in _CHECKS:
        errors.extend(_CHECKS[kind](item, source))
    if kind == "iscsi" and external_volumes.is_iscsi_name_too_long(source, volume_name):
        errors.append(field.invalid(f"{path}.name", volume_name, external_volumes.ISCSI_NAME_TOO_LONG))
    return errors


def _validate_git(path: str, source: JsonObject) -> list[FieldError]:
    errors = [] if source.get("repository") else [field.required(f"{path}.repository")]
    directory = source.get("directory", "")
    return errors + field.invalid_for(f"{path}.directory", directory, check_local_path(directory))


def _validate_nfs(path: str, source: JsonObject) -> list[FieldError]:
    errors = [field.required(f"{path}.{name}") for name in ("server", "path") if not source.get(name)]
    exported = source.get("path", "")
    if not exported.startswith("/"):
        errors.append(field.invalid(f"{path}.path", exported, "must be an absolute path"))
    return errors


def _validate_iscsi(path: str, source: JsonObject) -> list[FieldError]:
    errors = external_volumes.validate_iscsi(path, source, _validate_iscsi_name)
    if "initiatorName" in source:
        errors.extend(_validate_iscsi_name(f"{path}.initiatorname", source["initiatorName"]))
    return errors


def _validate_iscsi_name(path: str, name: str) -> list[FieldError]:
    is_valid = external_volumes.is_iscsi_name(name)
    if is_valid is None:
        return [field.invalid(path, name, "must be valid format starting with iqn, eui, or naa")]
    return [] if is_valid else [field.invalid(path, name, "must be valid format")]


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
    "nfs": _validate_nfs,
    "iscsi": _validate_iscsi,
    "cinder": _validate_secret_name,
    "storageos": _validate_storage_os,
    "csi": _validate_csi,
}
