"""Rules that several kinds of storage use: names of drivers, parameters, access modes, volume modes.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `pkg/apis/storage/validation`, `ValidatePersistentVolumeSpec`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bridgehead.apiserver.resource import FieldError, JsonObject
from bridgehead.apiserver.resources.shared import field
from bridgehead.apiserver.resources.shared.columns import at
from bridgehead.apiserver.resources.shared.quantities import amount_of
from bridgehead.objects.names import check_dns1123_subdomain, check_qualified_name

BETA_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
CLASS_ANNOTATION_WARNING = (
    f'metadata.annotations[{BETA_CLASS_ANNOTATION}]: deprecated since v1.8; use "storageClassName" attribute instead'
)
VOLUME_MODES = ("Block", "Filesystem")

_ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_SHORT_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
_MAX_DRIVER_BYTES = 63
_MAX_PARAMETERS, _MAX_PARAMETER_BYTES = 512, 256 * 1024


def validate_driver_name(path: str, name: str) -> list[FieldError]:
    """Validate the name of a CSI driver."""
    errors = [] if name else [field.required(path)]
    if len(name) > _MAX_DRIVER_BYTES:
        errors.append(field.too_long(path, _MAX_DRIVER_BYTES))
    return [*errors, *field.invalid_for(path, name, check_dns1123_subdomain(name.lower()))]


def validate_provisioner(path: str, name: str) -> list[FieldError]:
    if not name:
        return [field.required(path)]
    return field.invalid_for(path, name, check_qualified_name(name.lower()))


def validate_parameters(path: str, parameters: Mapping[str, str], *, allow_empty: bool = True) -> list[FieldError]:
    """Validate the parameters of a class."""
    if len(parameters) > _MAX_PARAMETERS:
        return [field.too_long(path, _MAX_PARAMETERS)]
    if not parameters and not allow_empty:
        return [field.required(path, "must contain at least one key/value pair")]
    errors = [field.invalid(path, key, "field can not be empty.") for key in parameters if not key]
    if sum(len(key.encode()) + len(value.encode()) for key, value in parameters.items()) > _MAX_PARAMETER_BYTES:
        errors.append(field.too_long(path, _MAX_PARAMETER_BYTES))
    return errors


def validate_access_modes(path: str, modes: Sequence[str]) -> list[FieldError]:
    if not modes:
        return [field.required(path, "at least 1 access mode is required")]
    errors = [error for mode in modes for error in field.one_of(path, mode, _ACCESS_MODES)]
    if "ReadWriteOncePod" in modes and any(mode in _ACCESS_MODES for mode in modes if mode != "ReadWriteOncePod"):
        errors.append(field.forbidden(path, "may not use ReadWriteOncePod with other access modes"))
    return errors


def validate_class_name(path: str, spec: JsonObject, name: str) -> list[FieldError]:
    """Validate the name of a class in the field `name` of `spec`; it may be missing or empty."""
    value = spec.get(name, "")
    return field.invalid_for(f"{path}.{name}", value, check_dns1123_subdomain(value)) if value else []


def validate_positive_quantity(path: str, quantity: str) -> list[FieldError]:
    amount = amount_of(quantity)
    if amount is None or amount > 0:
        return []
    return [field.invalid(path, quantity, "must be greater than zero")]


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
