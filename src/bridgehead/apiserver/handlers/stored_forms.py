"""Resources that store their objects as those of another resource (`resource.StoredForm`): conversion of requests.

Functions for a resource without such a form return their argument. Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import msgspec

from bridgehead.apiserver.bodies.nulls import decode_stored, nulls_of, write_nulls
from bridgehead.apiserver.errors import invalid
from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import Change, JsonObject, Resource, errors_of


def served_value(resource: Resource, value: bytes) -> bytes:
    """Return a stored object in the resource's own form."""
    if resource.stored_form is None:
        return value
    served = resource.stored_form.from_stored(decode_stored(resource, value))
    write_nulls(served, nulls_of(resource))
    return msgspec.json.encode(served)


def stored_object(resource: Resource, obj: JsonObject) -> JsonObject:
    """Return a new object in the form that is stored. Raises a 422 by the rules of the resource's own form."""
    form = resource.stored_form
    if form is None:
        return obj
    _check(resource, obj, errors_of(form.own_rules.validate_create, obj))
    return form.to_stored(obj)


def stored_change(resource: Resource, change: Change, subresource: str) -> Change:
    """Return a change of the stored form for one of the resource's own form."""
    form = resource.stored_form
    if form is None:
        return change

    def stored(old: JsonObject) -> JsonObject:
        new = form.to_stored(change(form.from_stored(old)))
        check_own_form(resource, new, old, subresource)
        return new

    return stored


def check_own_form(resource: Resource, new: JsonObject, old: JsonObject, subresource: str) -> None:
    """Raise a 422 if a stored object breaks the rules of the resource's own form. `old` is {} for a new object."""
    form = resource.stored_form
    if form is None:
        return
    own, rules = form.from_stored(new), form.own_rules
    if old:
        errors = errors_of(rules.validate_update, own, form.from_stored(old), subresource)
    else:
        errors = errors_of(rules.validate_create, own)
    _check(resource, own, errors)


def _check(resource: Resource, obj: JsonObject, errors: list[FieldError]) -> None:
    if errors:
        raise invalid(resource.stored.group, resource.kind, obj.get("metadata", {}).get("name", ""), errors)
