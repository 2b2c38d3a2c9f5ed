"""Secret (core/v1): its entry in the table, its defaults and its rules.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidateSecret`.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping

from bridgehead.apiserver import go_json
from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.go_values import json_kind
from bridgehead.apiserver.resource import Column, JsonObject, Resource, Strategy
from bridgehead.apiserver.resources.shared import field
from bridgehead.apiserver.resources.shared.columns import AGE, NAME, selectable, text_column
from bridgehead.apiserver.resources.shared.config_data import MAX_DATA_BYTES, decoded, decoded_size, validate_frozen
from bridgehead.apiserver.resources.shared.keys import check_config_key
from bridgehead.apiserver.resources.shared.pem import check_key_pair
from bridgehead.objects.names import check_dns1123_subdomain

_TLS = "kubernetes.io/tls"
_ACCOUNT_ANNOTATION = "kubernetes.io/service-account.name"
# The keys that a Secret of a type must have: all keys of at least one group.
_NEEDED_KEYS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "kubernetes.io/dockercfg": ((".dockercfg",),),
    "kubernetes.io/dockerconfigjson": ((".dockerconfigjson",),),
    "kubernetes.io/basic-auth": (("username",), ("password",)),
    "kubernetes.io/ssh-auth": (("ssh-privatekey",),),
    _TLS: (("tls.crt", "tls.key"),),
}
_JSON_KEYS = (".dockercfg", ".dockerconfigjson")


class SecretStrategy(Strategy):
    def default(self, obj: JsonObject) -> None:
        # `stringData` is write-only: it is merged into `data` and overrides it.
        for key, text in obj.pop("stringData", {}).items():
            obj.setdefault("data", {})[key] = base64.b64encode(text.encode()).decode()
        obj["type"] = obj.get("type") or "Opaque"

    def validate(self, obj: JsonObject) -> list[FieldError]:
        data = obj.get("data", {})
        errors = []
        for key in data:
            errors.extend(field.invalid_for(f"data[{key}]", key, check_config_key(key)))
        if sum(map(decoded_size, data.values())) > MAX_DATA_BYTES:
            errors.append(field.too_long("data", MAX_DATA_BYTES))
        return [*errors, *_validate_secret_type(obj)]

    def validate_update(self, obj: JsonObject, old: JsonObject, subresource: str) -> list[FieldError]:
        errors = field.errors_below("", validate_frozen, obj, old, ("data",))
        if obj.get("type") != old.get("type"):
            errors.append(field.invalid("type", obj.get("type"), field.IMMUTABLE))
        return errors

    def warnings(self, obj: JsonObject) -> list[str]:
        if obj.get("type") != _TLS:
            return []
        data = obj.get("data", {})
        why = check_key_pair(data.get("tls.crt", ""), data.get("tls.key", ""))
        return [why] if why else []


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
    # The key of an SSH client must not be empty either.
    present = {key for key in data if data[key] or type_ != "kubernetes.io/ssh-auth"}
    if groups and not any(present.issuperset(group) for group in groups):
        missing = [key for group in groups for key in group if key not in present]
        errors.extend(field.required(f"data[{key}]") for key in missing)
    for key in _JSON_KEYS:
        if key in data and any(key in group for group in groups):
            errors.extend(_validate_json(f"data[{key}]", decoded(data[key])))
    return errors


def _validate_json(path: str, content: bytes) -> list[FieldError]:
    try:
        value = go_json.decode(content)
    except go_json.GoSyntaxError as error:
        return [field.invalid(path, "<secret contents redacted>", str(error))]
    if isinstance(value, dict | None):
        return []
    detail = f"json: cannot unmarshal {json_kind(value)} into Go value of type map[string]interface {{}}"
    return [field.invalid(path, "<secret contents redacted>", detail)]


RESOURCE = Resource(
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
