"""The hooks of a custom resource: defaults and validation by the schema of its version.

Pure: no I/O, no clock, no randomness.
Source: apiextensions-apiserver/pkg/registry/customresource/strategy.go, status_strategy.go, validator.go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.go_values import go_type, go_value
from bridgehead.apiserver.resource import JsonObject, ScalePaths, Strategy
from bridgehead.apiserver.resources.shared import field
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

    def validate_create(self, obj: JsonObject) -> list[FieldError]:
        errors = [] if self._structural is None else self._structural().validate(obj)
        errors += self._validate_scale(obj, "spec", "status") + _warn_of_finalizers(obj, {})
        _store_numbers(obj)
        return errors

    def validate_update(self, obj: JsonObject, old: JsonObject, subresource: str) -> list[FieldError]:
        if subresource == "status":
            errors = [] if self._structural is None else self._structural().validate_status(obj, old)
            errors += self._validate_scale(obj, "status")
        else:
            errors = [] if self._structural is None else self._structural().validate(obj, old)
            errors += self._validate_scale(obj, "spec", "status") + _warn_of_finalizers(obj, old)
        _store_numbers(obj)
        return errors

    def _validate_scale(self, obj: JsonObject, *roots: str) -> list[FieldError]:
        """Validate the fields that the Scale shows, of those that are in one of the roots."""
        if self._scale is None:
            return []
        errors = []
        for names in (self._scale.spec_replicas, self._scale.status_replicas):
            if names[0] in roots:
                errors += _validate_replicas(names, _find(obj, names))
        selector = self._scale.selector
        if selector is not None and selector[0] in roots:
            value = _find(obj, selector)
            if value is not None and not isinstance(value, str):
                errors.append(field.invalid(_path(selector), "", _accessor_error(selector, value, "string")))
        return errors


def _store_numbers(obj: JsonObject) -> None:
    """Give a validated object the numbers that are read back after Go has stored it. `metadata` has no floats."""
    for name, item in obj.items():
        if name != "metadata" and (new := stored(item)) is not item:
            obj[name] = new


def _warn_of_finalizers(obj: JsonObject, old: JsonObject) -> list[FieldError]:
    """Warn of new finalizers with names that other programs may use, too."""
    added = set(obj.get("metadata", {}).get("finalizers") or ()) - set(old.get("metadata", {}).get("finalizers") or ())
    warnings = []
    for name in sorted(added):
        texts = check_qualified_name(name)
        if "/" not in name and name not in _STANDARD_FINALIZERS:
            texts.append(_PLAIN_FINALIZER.format(" including a path (/)" if "." in name else ""))
        warnings += [FieldError("", "metadata.finalizers", f'"{name}": {text}', is_warning=True) for text in texts]
    return warnings


def _validate_replicas(names: tuple[str, ...], value: Any) -> list[FieldError]:
    if value is None:
        return []
    path = _path(names)
    if not isinstance(value, int) or isinstance(value, bool):
        return [field.invalid(path, 0, _accessor_error(names, value, "int64"))]
    if value < 0:
        return [field.invalid(path, value, "should be a non-negative integer")]
    if value > _MAX_REPLICAS:
        return [field.invalid(path, value, f"should be less than or equal to {_MAX_REPLICAS}")]
    return []


def _find(obj: Any, names: tuple[str, ...]) -> Any:
    for name in names:
        if type(obj) is not dict:
            return None
        obj = obj.get(name)
    return obj


def _path(names: tuple[str, ...]) -> str:
    return "".join(f".{name}" for name in names)


def _accessor_error(names: tuple[str, ...], value: Any, wanted: str) -> str:
    return f"{_path(names)} accessor error: {go_value(value)} is of the type {go_type(value)}, expected {wanted}"
