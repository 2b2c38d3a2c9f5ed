"""Secret (core/v1): its entry in the table, its defaults and its rules.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidateSecret`.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping

from bridgehead.apiserver import go_json
from bridgehead.apiserver.field import Field
from bridgehead.apiserver.go_values import json_kind
from bridgehead.apiserver.resource import Column, JsonObject, Resource, Strategy
from bridgehead.objects.names import check_dns1123_subdomain

from .shared.columns import AGE, NAME, selectable, text_column
from .shared.config_data import MAX_DATA_BYTES, decoded, decoded_size, validate_frozen
from .shared.keys import check_config_key
from .shared.pem import check_key_pair

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

    def validate(self, obj: Field) -> None:
        data = obj.at("data", {})
        for key, entry in data.entries():
            entry.showing(key).must_pass(check_config_key)
        if sum(map(decoded_size, data.value.values())) > MAX_DATA_BYTES:
            data.too_long(MAX_DATA_BYTES)
        if obj.get("type") == "kubernetes.io/service-account-token":
            obj.at("metadata").at("annotations").entry(_ACCOUNT_ANNOTATION).must_be_set()
        else:
            _validate_data(data, obj.get("type", ""))

    def validate_update(self, obj: Field, old: JsonObject, subresource: str) -> None:
        validate_frozen(obj, old, ("data",))
        obj.at("type").must_not_change(old.get("type"))

    def warnings(self, obj: JsonObject) -> list[str]:
        if obj.get("type") != _TLS:
            return []
        data = obj.get("data", {})
        why = check_key_pair(data.get("tls.crt", ""), data.get("tls.key", ""))
        return [why] if why else []


def _validate_data(data: Field, type: str) -> None:
    """Validate the data of a Secret of a type."""
    groups = _NEEDED_KEYS.get(type, ())
    # The key of an SSH client must not be empty either.
    present = {key for key, value in data.value.items() if value or type != "kubernetes.io/ssh-auth"}
    if groups and not any(present.issuperset(group) for group in groups):
        for key in (key for group in groups for key in group if key not in present):
            data.entry(key).required()
    for key in _JSON_KEYS:
        if key in data.value and any(key in group for group in groups):
            _validate_json(data.entry(key))


def _validate_json(entry: Field) -> None:
    redacted = entry.showing("<secret contents redacted>")
    try:
        value = go_json.decode(decoded(entry.value))
    except go_json.GoSyntaxError as error:
        redacted.invalid(str(error))
        return
    if not isinstance(value, dict | None):
        redacted.invalid(f"json: cannot unmarshal {json_kind(value)} into Go value of type map[string]interface {{}}")


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
