"""What the volumes of a pod or of a template may say.

Pure; called by `pod_validation`. Volumes of kinds that no node here can provide are accepted as Kubernetes accepts
them: the kubelet says that it can't. Source: Kubernetes `ValidateVolumes`.
"""

from __future__ import annotations

from collections.abc import Sequence

from bridgehead.apiserver.resource import FieldError, JsonObject
from bridgehead.objects.names import check_dns1123_label

from . import field
from .container_validation import (
    validate_field_ref,
    validate_resource_field_ref,
)
from .keys import check_local_path
from .quantities import validate_quantity

_HOST_PATH_TYPES = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)
_DOWNWARD_FIELDS = ("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid")
_MODE = "must be a number between 0 and 0777 (octal), both inclusive"
_LEAST_TOKEN_SECONDS, _MOST_TOKEN_SECONDS = 600, 2**32


def validate_volumes(path: str, volumes: Sequence[JsonObject]) -> list[FieldError]:
    errors = []
    names: set[str] = set()
    for index, volume in enumerate(volumes):
        item = f"{path}[{index}]"
        name = volume.get("name", "")
        if not name:
            errors.append(field.required(f"{item}.name"))
        else:
            errors.extend(field.invalid_for(f"{item}.name", name, check_dns1123_label(name)))
            if name in names:
                errors.append(field.duplicate(f"{item}.name", name))
            names.add(name)
        errors.extend(_validate_source(item, volume))
    return errors


def _validate_source(path: str, volume: JsonObject) -> list[FieldError]:
    given = [name for name in volume if name != "name"]
    errors = field.only_one(path, given, "volume type")
    if not given:
        return errors
    kind, source = given[0], volume[given[0]]
    item = f"{path}.{kind}"
    match kind:
        case "configMap" | "secret":
            name = "name" if kind == "configMap" else "secretName"
            if not source.get(name):
                errors.append(field.required(f"{item}.{name}"))
            errors.extend(_validate_mode(f"{item}.defaultMode", source.get("defaultMode")))
            errors.extend(_validate_items(f"{item}.items", source.get("items", ())))
        case "emptyDir":
            if "sizeLimit" in source:
                errors.extend(validate_quantity(f"{item}.sizeLimit", source["sizeLimit"]))
        case "hostPath":
            errors.extend(_validate_host_path(item, source))
        case "downwardAPI":
            errors.extend(_validate_mode(f"{item}.defaultMode", source.get("defaultMode")))
            errors.extend(_validate_downward_items(item, source.get("items", ())))
        case "projected":
            errors.extend(_validate_projected(item, source))
        case "persistentVolumeClaim":
            if not source.get("claimName"):
                errors.append(field.required(f"{item}.claimName"))
    return errors


def _validate_host_path(path: str, source: JsonObject) -> list[FieldError]:
    host_path = source.get("path", "")
    if not host_path:
        return [field.required(f"{path}.path")]
    errors = []
    if ".." in host_path.split("/"):
        errors.append(field.invalid(f"{path}.path", host_path, "must not contain '..'"))
    return [*errors, *field.one_of(f"{path}.type", source.get("type", ""), _HOST_PATH_TYPES)]


def _validate_mode(path: str, mode: int | None) -> list[FieldError]:
    return [] if mode is None or 0 <= mode <= 0o777 else [field.invalid(path, mode, _MODE)]


def _validate_items(path: str, items: Sequence[JsonObject]) -> list[FieldError]:
    errors = []
    for index, one in enumerate(items):
        item = f"{path}[{index}]"
        if not one.get("key"):
            errors.append(field.required(f"{item}.key"))
        errors.extend(_validate_file(item, one))
    return errors


def _validate_file(path: str, file: JsonObject) -> list[FieldError]:
    """A file in a volume: its path stays inside, its mode is one."""
    name = file.get("path", "")
    if not name:
        errors = [field.required(f"{path}.path")]
    else:
        errors = field.invalid_for(f"{path}.path", name, check_local_path(name))
        if not errors and name.startswith(".."):
            errors.append(field.invalid(f"{path}.path", name, "must not start with '..'"))
    return [*errors, *_validate_mode(f"{path}.mode", file.get("mode"))]


def _validate_downward_items(path: str, items: Sequence[JsonObject]) -> list[FieldError]:
    errors = []
    for index, one in enumerate(items):
        item = f"{path}.items[{index}]"
        errors.extend(_validate_file(item, one))
        if "fieldRef" in one:
            errors.extend(validate_field_ref(f"{item}.fieldRef", one["fieldRef"], _DOWNWARD_FIELDS))
            if "resourceFieldRef" in one:
                detail = "fieldRef and resourceFieldRef can not be specified simultaneously"
                errors.append(field.invalid(item, "resource", detail))
        elif "resourceFieldRef" in one:
            reference = one["resourceFieldRef"]
            errors.extend(validate_resource_field_ref(f"{item}.resourceFieldRef", reference, names_container=True))
        else:
            errors.append(field.required(item, "one of fieldRef and resourceFieldRef is required"))
    return errors


def _validate_projected(path: str, source: JsonObject) -> list[FieldError]:
    errors = _validate_mode(f"{path}.defaultMode", source.get("defaultMode"))
    for index, projection in enumerate(source.get("sources", ())):
        item = f"{path}.sources[{index}]"
        if len(projection) > 1:
            for name in list(projection)[1:]:
                errors.append(field.forbidden(f"{item}.{name}", "may not specify more than 1 volume type per source"))
        for kind in ("configMap", "secret"):
            if kind in projection:
                if not projection[kind].get("name"):
                    errors.append(field.required(f"{item}.{kind}.name"))
                errors.extend(_validate_items(f"{item}.{kind}.items", projection[kind].get("items", ())))
        if "downwardAPI" in projection:
            errors.extend(_validate_downward_items(f"{item}.downwardAPI", projection["downwardAPI"].get("items", ())))
        if "serviceAccountToken" in projection:
            errors.extend(_validate_token(f"{item}.serviceAccountToken", projection["serviceAccountToken"]))
    return errors


def _validate_token(path: str, token: JsonObject) -> list[FieldError]:
    errors = _validate_file(path, {"path": token.get("path", "")})
    seconds = token.get("expirationSeconds", _LEAST_TOKEN_SECONDS)
    if seconds < _LEAST_TOKEN_SECONDS:
        errors.append(
            field.invalid(f"{path}.expirationSeconds", seconds, "may not specify a duration less than 10 minutes")
        )
    if seconds > _MOST_TOKEN_SECONDS:
        errors.append(
            field.invalid(f"{path}.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds")
        )
    return errors
