"""DeviceClass (resource.k8s.io/v1): its entry in the table and its rules.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidateDeviceClass`.
"""

from __future__ import annotations

from functools import partial

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import JsonObject, Resource, Strategy
from bridgehead.apiserver.resources.shared.columns import AGE, NAME, at
from bridgehead.objects.names import check_dns1123_subdomain, check_qualified_name

from .device_rules import MAX_CONFIGS, validate_configuration, validate_items, validate_selectors


class DeviceClassStrategy(Strategy):
    @property
    def may_take_long(self) -> bool:
        return True  # selectors are compiled

    def default(self, obj: JsonObject) -> None:
        obj.setdefault("spec", {})

    def validate_create(self, obj: Field) -> None:
        _validate(obj.at("spec"), is_stored=False)

    def validate_update(self, obj: Field, old: JsonObject, subresource: str) -> None:
        spec = obj.at("spec")
        _validate(spec, is_stored=spec.get("config") == at(old, "spec", "config"))


def _validate(spec: Field, *, is_stored: bool) -> None:
    """Validate a class. Configurations that are stored already may be of any size."""
    validate_selectors(spec.at("selectors"))
    validate_items(spec.at("config"), MAX_CONFIGS, partial(validate_configuration, is_stored=is_stored))
    name = spec.at("extendedResourceName")
    if name.value is not None and not _is_extended_resource(name.value):
        name.invalid("must be a valid extended resource name")


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
