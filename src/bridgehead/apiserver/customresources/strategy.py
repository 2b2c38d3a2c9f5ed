"""The hooks of a custom resource: defaults and validation by the schema of its version.

Pure: no I/O, no clock, no randomness.
Source: apiextensions-apiserver/pkg/registry/customresource/strategy.go, status_strategy.go, validator.go.
"""

from __future__ import annotations

from collections.abc import Callable

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.go_values import go_type, go_value
from bridgehead.apiserver.resource import JsonObject, ScalePaths, Strategy
from bridgehead.objects.names import check_qualified_name

from .schema import Structural, stored

_STANDARD_FINALIZERS = frozenset({"orphan", "foregroundDeletion", "kubernetes"})
_PLAIN_FINALIZER = (
    "prefer a domain-qualified finalizer name{} to avoid accidental conflicts with other finalizer writers"
)
_MAX_REPLICAS = 2**31 - 1


class CustomResourceStrategy(Strategy):
    """The hooks for one version. `structural` returns its compiled schema; None: the version has no schema."""

    def __init__(
        self, structural: Callable[[], Structural] | None, *, has_status: bool, scale: ScalePaths | None
    ) -> None:
        self._structural = structural
        self._has_status = has_status
        self._scale = scale

    @property
    def may_take_long(self) -> bool:
        return self._structural is not None and self._structural().may_take_long

    def default(self, obj: JsonObject) -> None:
        if self._structural is not None:
            self._structural().default(obj)

    def prepare_create(self, obj: JsonObject) -> None:
        if self._has_status:
            obj.pop("status", None)

    def validate_create(self, obj: Field) -> None:
        if self._structural is not None:
            obj.errors.extend(self._structural().validate(obj.value))
        self._validate_scale(obj, "spec", "status")
        _warn_of_finalizers(obj, {})
        _store_numbers(obj.value)

    def validate_update(self, obj: Field, old: JsonObject, subresource: str) -> None:
        if subresource == "status":
            if self._structural is not None:
                obj.errors.extend(self._structural().validate_status(obj.value, old))
            self._validate_scale(obj, "status")
        else:
            if self._structural is not None:
                obj.errors.extend(self._structural().validate(obj.value, old))
            self._validate_scale(obj, "spec", "status")
            _warn_of_finalizers(obj, old)
        _store_numbers(obj.value)

    def _validate_scale(self, obj: Field, *roots: str) -> None:
        """Validate the fields that the Scale shows, of those that are in one of the roots."""
        if self._scale is None:
            return
        for names in (self._scale.spec_replicas, self._scale.status_replicas):
            if names[0] in roots:
                _validate_replicas(_field_at(obj, names))
        if self._scale.selector is not None and self._scale.selector[0] in roots:
            selector = _field_at(obj, self._scale.selector)
            if selector.value is not None and not isinstance(selector.value, str):
                selector.showing("").invalid(_accessor_error(selector, "string"))


def _store_numbers(obj: JsonObject) -> None:
    """Give a validated object the numbers that are read back after Go has stored it. `metadata` has no floats."""
    for name, item in obj.items():
        if name != "metadata" and (new := stored(item)) is not item:
            obj[name] = new


def _warn_of_finalizers(obj: Field, old: JsonObject) -> None:
    """Warn of new finalizers with names that other programs may use, too."""
    finalizers = obj.at("metadata").at("finalizers")
    for name in sorted(set(finalizers.value or ()) - set(old.get("metadata", {}).get("finalizers") or ())):
        texts = check_qualified_name(name)
        if "/" not in name and name not in _STANDARD_FINALIZERS:
            texts.append(_PLAIN_FINALIZER.format(" including a path (/)" if "." in name else ""))
        for text in texts:
            finalizers.warning(f'"{name}": {text}')


def _validate_replicas(replicas: Field) -> None:
    if replicas.value is not None and type(replicas.value) is not int:
        replicas.showing(0).invalid(_accessor_error(replicas, "int64"))
    else:
        replicas.must_be_at_least(0, "should be a non-negative integer")
        replicas.must_be_at_most(_MAX_REPLICAS, f"should be less than or equal to {_MAX_REPLICAS}")


def _field_at(obj: Field, names: tuple[str, ...]) -> Field:
    """Return a field of an object, with the path that errors about a Scale have: `.spec.replicas`."""
    value = obj.value
    for name in names:
        value = value.get(name) if type(value) is dict else None
    return Field(value, "".join(f".{name}" for name in names), obj)


def _accessor_error(field: Field, wanted: str) -> str:
    return (
        f"{field.path} accessor error: {go_value(field.value)} is of the type {go_type(field.value)}, expected {wanted}"
    )
