"""ConfigMap, Secret and ServiceAccount (core/v1): their entries in the table, their defaults and their rules.

Source: Kubernetes `ValidateSecret`, `ValidateConfigMap` and their updates.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping

from bridgehead.apiserver.resource import Column, FieldError, JsonObject, Resource, Strategy
from bridgehead.objects.names import check_dns1123_subdomain

from . import field
from .columns import AGE, NAME, selectable, text_column
from .keys import check_config_key

_SIZE_LIMIT = 1024 * 1024
_FROZEN = "field is immutable when `immutable` is set"
_ACCOUNT_ANNOTATION = "kubernetes.io/service-account.name"
# Which keys a type of Secret must have: all of one group.
_NEEDED_KEYS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "kubernetes.io/dockercfg": ((".dockercfg",),),
    "kubernetes.io/dockerconfigjson": ((".dockerconfigjson",),),
    "kubernetes.io/basic-auth": (("username",), ("password",)),
    "kubernetes.io/ssh-auth": (("ssh-privatekey",),),
    "kubernetes.io/tls": (("tls.crt", "tls.key"),),
}
_JSON_KEYS = (".dockercfg", ".dockerconfigjson")


def _validate_frozen(obj: JsonObject, old: JsonObject, fields: tuple[str, ...]) -> list[FieldError]:
    """An object marked `immutable` stays so, with its data."""
    if not old.get("immutable"):
        return []
    errors = []
    if not obj.get("immutable"):
        errors.append(field.forbidden("immutable", _FROZEN))
    errors.extend(field.forbidden(name, _FROZEN) for name in fields if obj.get(name, {}) != old.get(name, {}))
    return errors


class ConfigMapStrategy(Strategy):
    def validate(self, obj: JsonObject) -> list[FieldError]:
        data, binary = obj.get("data", {}), obj.get("binaryData", {})
        errors = []
        for key in data:
            errors.extend(field.invalid_for(f"data[{key}]", key, check_config_key(key)))
            if key in binary:
                errors.append(field.invalid(f"data[{key}]", key, "duplicate of key present in binaryData"))
        for key in binary:
            errors.extend(field.invalid_for(f"binaryData[{key}]", key, check_config_key(key)))
        size = sum(len(value.encode()) for value in data.values()) + sum(map(_decoded_size, binary.values()))
        if size > _SIZE_LIMIT:
            errors.append(field.too_long("", _SIZE_LIMIT))
        return errors

    def validate_update(self, obj: JsonObject, old: JsonObject, subresource: str) -> list[FieldError]:
        return _validate_frozen(obj, old, ("data", "binaryData"))


def _decoded_size(text: str) -> int:
    return len(_decode(text))


def _decode(text: str) -> bytes:
    """What a base64 value stands for; nothing when it is malformed, which the schema has refused before."""
    try:
        return base64.b64decode(text)
    except ValueError:
        return b""


class SecretStrategy(Strategy):
    def default(self, obj: JsonObject) -> None:
        # `stringData` is for writing only: it is folded into `data` and wins.
        for key, text in obj.pop("stringData", {}).items():
            obj.setdefault("data", {})[key] = base64.b64encode(text.encode()).decode()
        obj["type"] = obj.get("type") or "Opaque"

    def validate(self, obj: JsonObject) -> list[FieldError]:
        data = obj.get("data", {})
        errors = []
        for key in data:
            errors.extend(field.invalid_for(f"data[{key}]", key, check_config_key(key)))
        if sum(map(_decoded_size, data.values())) > _SIZE_LIMIT:
            errors.append(field.too_long("data", _SIZE_LIMIT))
        return [*errors, *_validate_secret_type(obj)]

    def validate_update(self, obj: JsonObject, old: JsonObject, subresource: str) -> list[FieldError]:
        errors = _validate_frozen(obj, old, ("data",))
        if obj.get("type") != old.get("type"):
            errors.append(field.invalid("type", obj.get("type"), field.IMMUTABLE))
        return errors


def _validate_secret_type(obj: JsonObject) -> list[FieldError]:
    type_, data = obj.get("type", ""), obj.get("data", {})
    if type_ == "kubernetes.io/service-account-token":
        annotations = obj.get("metadata", {}).get("annotations", {})
        return (
            []
            if annotations.get(_ACCOUNT_ANNOTATION)
            else [field.required(f"metadata.annotations[{_ACCOUNT_ANNOTATION}]")]
        )
    groups = _NEEDED_KEYS.get(type_, ())
    errors: list[FieldError] = []
    if groups and not any(all(key in data for key in group) for group in groups):
        missing = [key for group in groups for key in group if key not in data]
        errors.extend(field.required(f"data[{key}]") for key in missing)
    for key in _JSON_KEYS:
        if key in data and any(key in group for group in groups):
            errors.extend(_validate_json(f"data[{key}]", _decode(data[key])))
    return errors


def _validate_json(path: str, content: bytes) -> list[FieldError]:
    try:
        is_object = isinstance(json.loads(content), dict)
    except ValueError as error:
        return [field.invalid(path, "<secret contents redacted>", str(error))]
    if is_object:
        return []
    return [field.invalid(path, "<secret contents redacted>", "must be a JSON object")]


CONFIG_MAPS = Resource(
    group="",
    version="v1",
    kind="ConfigMap",
    plural="configmaps",
    singular="configmap",
    namespaced=True,
    short_names=("cm",),
    columns=(NAME, Column("Data", lambda cm, now: len(cm.get("data", ())) + len(cm.get("binaryData", ()))), AGE),
    strategy=ConfigMapStrategy(),
    check_name=check_dns1123_subdomain,
)

SECRETS = Resource(
    group="",
    version="v1",
    kind="Secret",
    plural="secrets",
    singular="secret",
    namespaced=True,
    columns=(NAME, text_column("Type", "type"), Column("Data", lambda secret, now: len(secret.get("data", ()))), AGE),
    strategy=SecretStrategy(),
    selectable={"type": selectable("type")},
    check_name=check_dns1123_subdomain,
)

SERVICE_ACCOUNTS = Resource(
    group="",
    version="v1",
    kind="ServiceAccount",
    plural="serviceaccounts",
    singular="serviceaccount",
    namespaced=True,
    short_names=("sa",),
    subresources=("token",),
    columns=(NAME, Column("Secrets", lambda account, now: len(account.get("secrets", ()))), AGE),
    check_name=check_dns1123_subdomain,
)
