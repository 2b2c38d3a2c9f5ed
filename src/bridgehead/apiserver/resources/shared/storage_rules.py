"""Rules that several kinds of storage use: names of drivers, parameters, access modes, volume modes.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `pkg/apis/storage/validation`, `ValidatePersistentVolumeSpec`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import JsonObject
from bridgehead.objects.names import check_dns1123_subdomain, check_qualified_name

from .columns import at
from .quantity_rules import amount_of

BETA_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
CLASS_ANNOTATION_WARNING = (
    f'metadata.annotations[{BETA_CLASS_ANNOTATION}]: deprecated since v1.8; use "storageClassName" attribute instead'
)
VOLUME_MODES = ("Block", "Filesystem")

_ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_SHORT_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
_MAX_DRIVER_BYTES = 63
_MAX_PARAMETERS, _MAX_PARAMETER_BYTES = 512, 256 * 1024


def validate_driver_name(name: Field) -> None:
    """Validate the name of a CSI driver."""
    name.must_be_set()
    if len(name.value) > _MAX_DRIVER_BYTES:
        name.too_long(_MAX_DRIVER_BYTES)
    name.must_pass(lambda text: check_dns1123_subdomain(text.lower()))


def validate_provisioner(name: Field) -> None:
    name.must_be_set_and_pass(lambda text: check_qualified_name(text.lower()))


def validate_parameters(parameters: Field, *, allow_empty: bool = True) -> None:
    """Validate the parameters of a class."""
    values = parameters.value or {}
    if len(values) > _MAX_PARAMETERS:
        parameters.too_long(_MAX_PARAMETERS)
        return
    if not values and not allow_empty:
        parameters.required("must contain at least one key/value pair")
        return
    if "" in values:
        parameters.showing("").invalid("field can not be empty.")
    if byte_count(values) > _MAX_PARAMETER_BYTES:
        parameters.too_long(_MAX_PARAMETER_BYTES)


def byte_count(texts: Mapping[str, str]) -> int:
    """Return the bytes of all keys and values."""
    return sum(len(key.encode()) + len(text.encode()) for key, text in texts.items())


def validate_access_modes(modes: Field) -> None:
    if not modes.must_be_set("at least 1 access mode is required"):
        return
    for mode in modes.value:
        modes.showing(mode).must_be_one_of(_ACCESS_MODES)
    others = [mode for mode in modes.value if mode != "ReadWriteOncePod"]
    if len(others) < len(modes.value) and any(mode in _ACCESS_MODES for mode in others):
        modes.forbidden("may not use ReadWriteOncePod with other access modes")


def validate_class_name(name: Field) -> None:
    """Validate the name of a class; it may be missing or empty."""
    if name:
        name.must_pass(check_dns1123_subdomain)


def validate_positive_quantity(quantity: Field) -> None:
    amount = amount_of(quantity.value)
    if amount is not None and amount <= 0:
        quantity.invalid("must be greater than zero")


def access_modes_text(modes: Sequence[str]) -> str:
    """Render access modes as `RWO,ROX`."""
    return ",".join(short for mode, short in _SHORT_MODES.items() if mode in modes)


def class_of(obj: JsonObject) -> str:
    """Return the StorageClass of a volume or a claim: the beta annotation, which is older, goes before the field."""
    annotation = (at(obj, "metadata", "annotations") or {}).get(BETA_CLASS_ANNOTATION)
    return str(annotation if annotation is not None else at(obj, "spec", "storageClassName") or "")


def phase_of(obj: JsonObject) -> str:
    if at(obj, "metadata", "deletionTimestamp"):
        return "Terminating"
    return str(at(obj, "status", "phase") or "")
