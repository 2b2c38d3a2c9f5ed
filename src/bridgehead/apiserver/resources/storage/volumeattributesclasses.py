"""VolumeAttributesClass (storage.k8s.io/v1): its entry in the table and its rules.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidateVolumeAttributesClass`.
"""

from __future__ import annotations

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import JsonObject, Resource, Strategy
from bridgehead.apiserver.resources.shared import field
from bridgehead.apiserver.resources.shared.columns import AGE, NAME, text_column
from bridgehead.apiserver.resources.shared.storage_rules import validate_parameters, validate_provisioner
from bridgehead.objects.names import check_dns1123_subdomain

_IMMUTABLE = ("driverName", "parameters")


class VolumeAttributesClassStrategy(Strategy):
    def validate(self, obj: JsonObject) -> list[FieldError]:
        errors = field.errors_below("driverName", validate_provisioner, obj.get("driverName", ""))
        return [
            *errors,
            *field.errors_below("parameters", validate_parameters, obj.get("parameters", {}), allow_empty=False),
        ]

    def validate_update(self, obj: JsonObject, old: JsonObject, subresource: str) -> list[FieldError]:
        changed = [name for name in _IMMUTABLE if obj.get(name) != old.get(name)]
        return [field.forbidden(name, f"updates to {name} are forbidden.") for name in changed]


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
