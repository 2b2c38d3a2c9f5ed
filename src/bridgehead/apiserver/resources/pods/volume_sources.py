"""Validation of the types of volumes that storage systems outside of the cluster provide.

Called by `volume_validation`. Pure: no I/O, no clock, no randomness. Source: Kubernetes `validateVolumeSource` and what
it calls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resources.shared import external_volumes
from bridgehead.apiserver.resources.shared.keys import check_local_path
from bridgehead.apiserver.resources.shared.storage_rules import validate_driver_name
from bridgehead.objects.names import check_dns1123_label, check_dns1123_subdomain


def validate_external_source(volume: Field, kind: str) -> None:
    """Validate the source of a volume whose type is `kind`."""
    source = external_volumes.source_of(volume, kind)
    external_volumes.validate_external_source(source, kind)
    if validate := _VALIDATORS.get(kind):
        validate(source)
    name = volume.at("name", "")
    if kind == "iscsi" and external_volumes.is_iscsi_name_too_long(source.value, name.value):
        name.invalid(external_volumes.ISCSI_NAME_TOO_LONG)


def _validate_git(source: Field) -> None:
    source.at("repository").must_be_set()
    source.at("directory", "").must_pass(check_local_path)


def _validate_nfs(source: Field) -> None:
    path = source.at("path", "")
    source.at("server").must_be_set()
    path.must_be_set()
    if not path.value.startswith("/"):
        path.invalid("must be an absolute path")


def _validate_iscsi(source: Field) -> None:
    external_volumes.validate_iscsi(source, _validate_iscsi_name)
    if "initiatorName" in source.value:
        _validate_iscsi_name(source.at("initiatorname").showing(source.get("initiatorName")))


def _validate_iscsi_name(name: Field) -> None:
    is_valid = external_volumes.is_iscsi_name(name.value)
    if is_valid is None:
        name.invalid("must be valid format starting with iqn, eui, or naa")
    elif not is_valid:
        name.invalid("must be valid format")


def _validate_secret_name(source: Field) -> None:
    if "secretRef" in source.value:
        source.at("secretRef").at("name").must_be_set()


def _validate_storage_os(source: Field) -> None:
    source.at("volumeName").must_be_set_and_pass(check_dns1123_label)
    source.if_set("volumeNamespace").must_pass(check_dns1123_label)
    _validate_secret_name(source)


def _validate_csi(source: Field) -> None:
    validate_driver_name(source.at("driver", ""))
    if "nodePublishSecretRef" in source.value:
        name = source.at("nodePublishSecretRef").at("name")
        if name.must_be_set():
            source.at("name").showing(name.value).must_pass(check_dns1123_subdomain)  # so in Kubernetes


_VALIDATORS: Mapping[str, Callable[[Field], object]] = {
    "gitRepo": _validate_git,
    "nfs": _validate_nfs,
    "iscsi": _validate_iscsi,
    "cinder": _validate_secret_name,
    "storageos": _validate_storage_os,
    "csi": _validate_csi,
}
