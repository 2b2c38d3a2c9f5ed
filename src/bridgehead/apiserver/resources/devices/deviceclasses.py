"""DeviceClass (resource.k8s.io/v1): its entry in the table and its rules.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidateDeviceClass`.
"""

from __future__ import annotations

from functools import partial

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import JsonObject, Resource, Strategy
from bridgehead.apiserver.resources.shared import field
from bridgehead.apiserver.resources.shared.columns import AGE, NAME, at
from bridgehead.objects.names import check_dns1123_subdomain, check_qualified_name

from .device_rules import MAX_CONFIGS, validate_configuration, validate_items, validate_selectors


class DeviceClassStrategy(Strategy):
    @property
    def may_take_long(self) -> bool:
        return True  # selectors are compiled

    def default(self, obj: JsonObject) -> None:
        obj.setdefault("spec", {})

    def validate_create(self, obj: JsonObject) -> list[FieldError]:
        return _validate(obj, is_stored=False)

    def validate_update(self, obj: JsonObject, old: JsonObject, subresource: str) -> list[FieldError]:
        return _validate(obj, is_stored=at(obj, "spec", "config") == at(old, "spec", "config"))


def _validate(obj: JsonObject, *, is_stored: bool) -> list[FieldError]:
    """Validate a class. Configurations that are stored already may be of any size."""
    spec = obj.get("spec", {})
    check = partial(validate_configuration, is_stored=is_stored)
    errors = [
        *validate_selectors("spec.selectors", spec.get("selectors", ())),
        *validate_items("spec.config", spec.get("config", ()), MAX_CONFIGS, check),
    ]
    name = spec.get("extendedResourceName")
    if name is not None and not _is_extended_resource(name):
        errors.append(field.invalid("spec.extendedResourceName", name, "must be a valid extended resource name"))
    return errors


def _is_extended_resource(name: str) -> bool:
    prefix = name.partition("/")[0]
    is_native = "/" not in name or prefix == "kubernetes.io" or prefix.endswith(".kubernetes.io")
    return not is_native and not name.startswith("requests.") and not check_qualified_name(f"requests.{name}")


RESOURCE = Resource(
    group="resource.k8s.io",
    version="v1",
    kind="DeviceClass",
    plural="deviceclasses",
    singular="deviceclass",
    namespaced=False,
    strategy=DeviceClassStrategy(),
    columns=(NAME, AGE),
    has_generation=True,
    check_name=check_dns1123_subdomain,
)
