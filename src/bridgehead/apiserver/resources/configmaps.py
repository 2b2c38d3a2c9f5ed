"""ConfigMap (core/v1): its entry in the table and its rules.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidateConfigMap`.
"""

from __future__ import annotations

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import Column, JsonObject, Resource, Strategy
from bridgehead.objects.names import check_dns1123_subdomain

from .shared.columns import AGE, NAME
from .shared.config_data import MAX_DATA_BYTES, decoded_size, validate_frozen
from .shared.keys import check_config_key


class ConfigMapStrategy(Strategy):
    def validate(self, obj: Field) -> None:
        data, binary = obj.at("data"), obj.at("binaryData")
        for key in data.value or ():
            entry = data.entry(key).showing(key)
            entry.must_pass(check_config_key)
            if key in (binary.value or ()):
                entry.invalid("duplicate of key present in binaryData")
        for key in binary.value or ():
            binary.entry(key).showing(key).must_pass(check_config_key)
        size = sum(len(text.encode()) for text in obj.get("data", {}).values())
        size += sum(map(decoded_size, obj.get("binaryData", {}).values()))
        if size > MAX_DATA_BYTES:
            obj.at("[]").too_long(MAX_DATA_BYTES)

    def validate_update(self, obj: Field, old: JsonObject, subresource: str) -> None:
        validate_frozen(obj, old, ("data", "binaryData"))


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
