"""Fields of objects under validation, and the errors about them, with Kubernetes' texts.

Pure: no I/O, no clock, no randomness. Source: `k8s.io/apimachinery/pkg/util/validation/field`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from .go_values import JSON_ESCAPES

IMMUTABLE = "field is immutable"
# Fields whose names in Go are not those in JSON with a capital letter.
_GO_NAMES = {
    "apiGroup": "APIGroup",
    "seLinuxOptions": "SELinuxOptions",
    "gmsaCredentialSpecName": "GMSACredentialSpecName",
    "gmsaCredentialSpec": "GMSACredentialSpec",
}


def show_value(value: Any) -> str:
    """Render a value as the API does: a quoted text, or compact JSON as of Go's encoder."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text if isinstance(value, str) else text.translate(JSON_ESCAPES)


@dataclass(frozen=True)
class FieldError:
    """One cause of a 422, or a warning about an object that is stored all the same.

    `reason` is one of FieldValueRequired, FieldValueInvalid, FieldValueDuplicate, FieldValueForbidden,
    FieldValueNotSupported, FieldValueTooLong, FieldValueNotFound, FieldValueTypeInvalid, FieldValueTooMany.
    `field` is a path such as `spec.ports[0].nodePort`; `message` is the full text of the cause
    (`Invalid value: 0: must be between 1 and 65535, inclusive`).
    """

    reason: str
    field: str
    message: str
    is_warning: bool = False


class Field(msgspec.Struct, eq=False, gc=False):
    """One field of an object under validation: its value, its path, and the errors that the object has so far.

    `value` is decoded JSON, None for a field that is absent. A field counts as set (`bool(field)`) as in Go: neither
    absent nor empty nor zero. `key` is its name or index in its `parent`; that of the object itself is the path at
    which it is, "" for a whole object.

    Methods `must_...` are rules: each adds an error unless the value obeys, and returns whether it does. An absent
    value obeys all of them but `must_be_set` and `must_exist`; what an absent field stands for is the `default` of
    `at`. Methods that are named for an error add it and return it.
    """

    value: Any
    key: str | int = ""
    parent: Field | None = None
    found: list[FieldError] | None = None  # the errors of the whole object, of the object itself alone

    def __bool__(self) -> bool:
        return bool(self.value)

    @property
    def path(self) -> str:
        """The full path, such as `spec.ports[0].nodePort`."""
        keys: list[str | int] = []
        field: Field | None = self
        while field is not None:
            keys.append(field.key)
            field = field.parent
        path = ""
        for key in reversed(keys):
            if isinstance(key, int):
                path += f"[{key}]"
            else:
                path += f".{key}" if path and not key.startswith("[") else key
        return path

    @property
    def errors(self) -> list[FieldError]:
        """The errors of the whole object, in one list."""
        root = self
        while root.parent is not None:
            root = root.parent
        if root.found is None:
            root.found = []
        return root.found

    # --- Other fields ------------------------------------------------------------------------------------

    def at(self, name: str, default: Any = None) -> Field:
        """Return the field `name` of an object, or of one that is absent."""
        value = self.value
        return Field(value.get(name, default) if value else default, name, self)

    def if_set(self, name: str) -> Field:
        """Return the field `name` of an object, as an absent one unless it is set."""
        value = self.value
        return Field(value.get(name) or None if value else None, name, self)

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of the field `name` of an object, or of one that is absent."""
        value = self.value
        return value.get(name, default) if value else default

    def each(self) -> Sequence[Field]:
        """Return the items of a list."""
        return [Field(item, index, self) for index, item in enumerate(self.value)] if self.value else ()

    def item(self, index: int) -> Field:
        """Return an item of a list, or one that is absent."""
        values = self.value or ()
        return Field(values[index] if index < len(values) else None, index, self)

    def repeated(self, key: Callable[[Any], Hashable]) -> Iterator[Field]:
        """Yield the items of a list whose key occurs earlier, too. `key` returns that of an item's value."""
        seen: set[Hashable] = set()
        for item in self.each():
            of_item = key(item.value)
            if of_item in seen:
                yield item
            seen.add(of_item)

    def those_set(self, *names: str) -> Sequence[Field]:
        """Return the fields `names` that are set in an object."""
        value = self.value or {}
        return [Field(value[name], name, self) for name in names if value.get(name)]

    def entries(self) -> Sequence[tuple[str, Field]]:
        """Return the keys of a map with their values, whose paths end with `[KEY]`."""
        return [(key, Field(value, f"[{key}]", self)) for key, value in self.value.items()] if self.value else ()

    def entry(self, key: str) -> Field:
        """Return the value that a map has for a key, None if it has none, with the path of `entries`."""
        return Field(self.get(key), f"[{key}]", self)

    def showing(self, value: Any) -> Field:
        """Return a field of the same path with another value, for the errors about it."""
        return Field(value, self.key, self.parent, self.errors if self.parent is None else None)

    # --- Rules -------------------------------------------------------------------------------------------

    def must_be_set(self, detail: str = "") -> bool:
        if not self.value:
            self.required(detail)
        return bool(self.value)

    def must_exist(self, detail: str = "") -> bool:
        """Add an error about a required field if the value is absent. Empty values are allowed."""
        if self.value is None:
            self.required(detail)
        return self.value is not None

    def must_not_exist(self, detail: str) -> bool:
        """Add an error about a forbidden field unless the value is absent."""
        if self.value is not None:
            self.forbidden(detail)
        return self.value is None

    def must_pass(self, check: Callable[[Any], Sequence[str]]) -> bool:
        """Add an error for each reason that `check` returns (`objects.names.check_...`)."""
        reasons = () if self.value is None else check(self.value)
        for reason in reasons:
            self.invalid(reason)
        return not reasons

    def must_not_be_set(self, detail: str) -> bool:
        """Add an error about a forbidden field if the value is set."""
        if self.value:
            self.forbidden(detail)
        return not self.value

    def must_be_set_and_pass(self, check: Callable[[Any], Sequence[str]], detail: str = "") -> bool:
        """Check what `must_be_set` and `must_pass` do. `detail` is about a value that is not set."""
        return self.must_be_set(detail) and self.must_pass(check)

    def must_obey(self, validate: Callable[..., object], *arguments: Any) -> bool:
        """Let `validate` add its errors about this field unless it is absent. Return whether there are none."""
        if self.value is None:
            return True
        before = len(self.errors)
        validate(self, *arguments)
        return len(self.errors) == before

    def must_all_obey(self, validate: Callable[..., object], *arguments: Any) -> bool:
        """Let `validate` add its errors about each item of a list. Return whether there are none."""
        if not self.value:
            return True
        before = len(self.errors)
        for item in self.each():
            validate(item, *arguments)
        return len(self.errors) == before

    def must_all_pass(self, check: Callable[[Any], Sequence[str]]) -> bool:
        """Check what `must_pass` does for each item of a list."""
        return self.must_all_obey(Field.must_pass, check)

    def must_all_be_one_of(self, values: Sequence[str]) -> bool:
        return self.must_all_obey(Field.must_be_one_of, values)

    def must_have_no_duplicates(self, key: Callable[[Any], Hashable] = str) -> bool:
        """Add an error for each item of a list whose key occurs earlier, too (`repeated`)."""
        return not [item.duplicate() for item in self.repeated(key)]

    def must_be_set_to_one_of(self, values: Sequence[str]) -> bool:
        return self.must_be_set() and self.must_be_one_of(values)

    def must_be_one_of(self, values: Sequence[str]) -> bool:
        obeys = self.value is None or self.value in values
        if not obeys:
            self.not_supported(values)
        return obeys

    def must_not_be_in(self, values: Collection[Any], detail: str) -> bool:
        obeys = self.value not in values
        if not obeys:
            self.invalid(detail)
        return obeys

    def must_be_within(self, low: int, high: int, detail: str = "") -> bool:
        obeys = self.value is None or low <= self.value <= high
        if not obeys:
            self.invalid(detail or f"must be between {low} and {high}, inclusive")
        return obeys

    def must_be_at_least(self, low: int, detail: str = "") -> bool:
        obeys = self.value is None or self.value >= low
        if not obeys:
            self.invalid(detail or f"must be greater than or equal to {low}")
        return obeys

    def must_be_at_most(self, high: int, detail: str = "") -> bool:
        obeys = self.value is None or self.value <= high
        if not obeys:
            self.invalid(detail or f"must be less than or equal to {high}")
        return obeys

    def must_not_be_negative(self) -> bool:
        return self.must_be_at_least(0)

    def must_not_change(self, old: Any, detail: str = IMMUTABLE) -> bool:
        """Add an error unless the value, or its absence, is that of `old`."""
        obeys = bool(self.value == old)
        if not obeys:
            self.invalid(detail)
        return obeys

    def must_not_repeat(self, seen: set[Any]) -> bool:
        """Add an error if the value is among those seen before, and let `seen` have it."""
        obeys = self.value not in seen
        if not obeys:
            self.duplicate()
        seen.add(self.value)
        return obeys

    def must_have_one_of(self, names: Sequence[str], what: str) -> str | None:
        """Add errors unless an object has exactly one of the fields `names`. Return the first of them that it has.

        `what` describes such a field.
        """
        given = [name for name in names if name in self.value]
        if not given:
            self.required(f"must specify a {what}")
            return None
        for name in given[1:]:
            self.at(name).forbidden(f"may not specify more than 1 {what}")
        return given[0]

    def must_have_none_of(self, names: Iterable[str], detail: str) -> bool:
        """Add an error about a forbidden field for each of the fields `names` that an object has."""
        return not [self.at(name).forbidden(detail) for name in names if name in self.value]

    def must_have_at_most(self, limit: int) -> bool:
        obeys = self.value is None or len(self.value) <= limit
        if not obeys:
            self.too_many(limit)
        return obeys

    def must_have_at_most_bytes(self, limit: int) -> bool:
        """Add an error about a text that is longer in UTF-8."""
        obeys = self.value is None or len(self.value.encode()) <= limit
        if not obeys:
            self.too_long(limit)
        return obeys

    # --- Errors ------------------------------------------------------------------------------------------

    def required(self, detail: str = "") -> FieldError:
        return self._add("FieldValueRequired", f"Required value: {detail}" if detail else "Required value")

    def invalid(self, detail: str) -> FieldError:
        return self._add("FieldValueInvalid", f"Invalid value: {show_value(self.value)}: {detail}")

    def invalid_as_whole(self, detail: str) -> FieldError:
        """Add an error about a value that is not shown."""
        return self._add("FieldValueInvalid", f"Invalid value: {detail}")

    def forbidden(self, detail: str) -> FieldError:
        return self._add("FieldValueForbidden", f"Forbidden: {detail}")

    def duplicate(self, detail: str = "") -> FieldError:
        text = f"Duplicate value: {show_value(self.value)}"
        return self._add("FieldValueDuplicate", f"{text}: {detail}" if detail else text)

    def not_supported(self, supported: Sequence[str]) -> FieldError:
        values = ", ".join(show_value(one) for one in supported)
        text = f"Unsupported value: {show_value(self.value)}: supported values: {values}"
        return self._add("FieldValueNotSupported", text)

    def not_found(self, detail: str = "") -> FieldError:
        text = f"Not found: {show_value(self.value)}"
        return self._add("FieldValueNotFound", f"{text}: {detail}" if detail else text)

    def too_long(self, limit: int) -> FieldError:
        unit = "byte" if limit == 1 else "bytes"
        return self._add("FieldValueTooLong", f"Too long: may not be more than {limit} {unit}")

    def too_many(self, limit: int) -> FieldError:
        items = "item" if limit == 1 else "items"
        return self._add("FieldValueTooMany", f"Too many: {len(self.value)}: must have at most {limit} {items}")

    def wrong_type(self, detail: str) -> FieldError:
        return self._add("FieldValueTypeInvalid", f"Invalid value: {show_value(self.value)}: {detail}")

    def internal(self, detail: str) -> FieldError:
        return self._add("InternalError", f"Internal error: {detail}")

    def warning(self, text: str) -> None:
        """Add a warning about an object that is stored all the same."""
        self.errors.append(FieldError("", self.path, text, is_warning=True))

    def _add(self, reason: str, message: str) -> FieldError:
        error = FieldError(reason, self.path, message)
        self.errors.append(error)
        return error


def internal_value(value: Mapping[str, Any], zero: Mapping[str, Any]) -> dict[str, Any]:
    """Return a value as JSON of Kubernetes' internal type, which has all fields, under their names in Go.

    `zero` has the fields in the type's order, with their zero values.
    """
    return {
        _GO_NAMES.get(name) or f"{name[0].upper()}{name[1:]}": value.get(name, nothing)
        for name, nothing in zero.items()
    }
