"""VolumeAttributesClass (storage.k8s.io/v1): its entry in the table and its rules.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidateVolumeAttributesClass`.
"""

from __future__ import annotations

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import JsonObject, Resource, Strategy
from bridgehead.apiserver.resources.shared.columns import AGE, NAME, text_column
from bridgehead.apiserver.resources.shared.storage_rules import validate_parameters, validate_provisioner
from bridgehead.objects.names import check_dns1123_subdomain

_IMMUTABLE = ("driverName", "parameters")


class VolumeAttributesClassStrategy(Strategy):
    def validate(self, obj: Field) -> None:
        validate_provisioner(obj.at("driverName"))
        validate_parameters(obj.at("parameters"), allow_empty=False)

    def validate_update(self, obj: Field, old: JsonObject, subresource: str) -> None:
        for name in _IMMUTABLE:
            if obj.get(name) != old.get(name):
                obj.at(name).forbidden(f"updates to {name} are forbidden.")


RESOURCE = Resource(
    group="storage.k8s.io",
    version="v1",
    kind="VolumeAttributesClass",
    plural="volumeattributesclasses",
    singular="volumeattributesclass",
    namespaced=False,
    short_names=("vac",),
    strategy=VolumeAttributesClassStrategy(),
    columns=(NAME, text_column("DriverName", "driverName"), AGE),
    returns_deleted=True,
    check_name=check_dns1123_subdomain,
)
