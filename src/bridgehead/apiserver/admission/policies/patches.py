"""Changes of an object by the values of expressions: apply configurations and JSON patches.

Pure: no I/O, no clock, no randomness. Source: apiserver/pkg/admission/plugin/policy/mutating/patch.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from bridgehead.apiserver.bodies.json_patches import apply_json_patch
from bridgehead.apiserver.cel.admission_environments import check_type_names
from bridgehead.apiserver.cel.library.times import format_duration, format_timestamp
from bridgehead.apiserver.cel.values import Duration, Timestamp
from bridgehead.apiserver.errors import PatchRefused
from bridgehead.apiserver.fieldmanagement.applied_configuration import check
from bridgehead.apiserver.fieldmanagement.errors import BadConfiguration
from bridgehead.apiserver.fieldmanagement.merging import merge
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.shapes import LEAF, LIST, OBJECT, Shape


class PatchFailed(Exception):
    """A change that can't be made. The text is Kubernetes'."""


def apply_configuration(obj: JsonObject, configuration: Any, root: Shape) -> JsonObject:
    """Return `obj` with the fields of an `Object` value. `root` is the type of the object. Raises PatchFailed."""
    problems = check_type_names(configuration)
    if problems:
        raise PatchFailed("type mismatch: " + "\n".join(problems))
    wanted = to_json(configuration)
    try:
        check(wanted, root)
    except BadConfiguration as error:
        problem = f"failed to convert patch object to typed object: {error}"
        raise PatchFailed(f"error applying patch: {problem}") from None
    atomic = _atomic_parts(wanted, root, "")
    if atomic:
        problem = f"may not mutate atomic arrays, maps or structs: {', '.join(atomic)}"
        raise PatchFailed(f"error applying patch: invalid ApplyConfiguration: {problem}")
    return merge(obj, wanted, root)


def _atomic_parts(value: Any, shape: Shape, path: str) -> list[str]:
    """Return the paths of lists and maps in a configuration that belong together: a part would replace the whole."""
    found: list[str] = []
    if isinstance(value, dict) and shape.form == OBJECT:
        if shape.relation == LEAF:
            found.append(path)
        for name, item in value.items():
            field = shape.fields.get(name)
            if field is not None:
                found += _atomic_parts(item, field, f"{path}.{name}")
    elif isinstance(value, list) and shape.form == LIST:
        if shape.relation == LEAF:
            found.append(path)
        for index, item in enumerate(value):
            found += _atomic_parts(item, shape.items, f"{path}[{index}]")
    return found


def apply_patches(obj: JsonObject, patches: Any) -> JsonObject:
    """Return `obj` with a list of `JSONPatch` values applied; `obj` itself if a test fails. Raises PatchFailed."""
    operations = []
    for one in patches:
        value = one.get("value")
        problems = check_type_names(value, getattr(value, "type_name", ""))
        if problems:
            raise PatchFailed("type mismatch: " + "\n".join(problems))
        operation = {"op": one.get("op", ""), "path": one.get("path", "")}
        if one.get("from"):
            operation["from"] = one["from"]
        if "value" in one:
            operation["value"] = to_json(value)
        operations.append(operation)
    try:
        patched = apply_json_patch(obj, operations)
    except PatchRefused as error:
        if str(error).endswith("test failed"):
            return obj
        raise PatchFailed(f"JSONPath: {error}") from None
    if not isinstance(patched, dict):
        raise PatchFailed("JSONPath: the patch replaces the object by a value that is not an object")
    return patched


def to_json(value: Any) -> Any:
    """Return the JSON of a CEL value. Raises PatchFailed for one without."""
    match value:
        case None | bool() | str() | float():
            return value
        case Timestamp():
            return format_timestamp(value)
        case Duration():
            return format_duration(value)
        case int():
            return int(value)
        case bytes():
            return base64.b64encode(value).decode()
        case list():
            return [to_json(item) for item in value]
        case Mapping():
            for key in value:
                if type(key) is not str:
                    raise PatchFailed(f"map key {key} is not a string")
            return {key: to_json(item) for key, item in value.items()}
    raise PatchFailed(f"unsupported type {type(value).__name__}")
