"""ConfigMap (core/v1): its entry in the table and its rules.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidateConfigMap`.
"""

from __future__ import annotations

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import Column, JsonObject, Resource, Strategy
from bridgehead.apiserver.resources.shared import field
from bridgehead.apiserver.resources.shared.columns import AGE, NAME
from bridgehead.apiserver.resources.shared.config_data import MAX_DATA_BYTES, decoded_size, validate_frozen
from bridgehead.apiserver.resources.shared.keys import check_config_key
from bridgehead.objects.names import check_dns1123_subdomain


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
        size = sum(len(value.encode()) for value in data.values()) + sum(map(decoded_size, binary.values()))
        if size > MAX_DATA_BYTES:
            errors.append(field.too_long("[]", MAX_DATA_BYTES))
        return errors

    def validate_update(self, obj: JsonObject, old: JsonObject, subresource: str) -> list[FieldError]:
        return field.errors_below("", validate_frozen, obj, old, ("data", "binaryData"))


RESOURCE = Resource(
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
