"""Validation of `metadata`, labels, annotations and label selectors.

`registry` calls `validate_metadata` and `validate_metadata_update` for all objects. Validation of templates and
selectors uses the other functions. Pure: no I/O, no clock, no randomness.
Source: `k8s.io/apimachinery/pkg/api/validation`, `.../apis/meta/v1/validation`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from bridgehead.apiserver.resource import FieldError, JsonObject, Resource
from bridgehead.objects.names import check_dns1123_label, check_label_value, check_path_segment, check_qualified_name

from . import field

_ANNOTATIONS_LIMIT = 256 * 1024
# Kinds that may not own objects: an Event must not keep anything alive.
_FORBIDDEN_OWNERS = {("v1", "Event")}
_IMMUTABLE = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")
# Finalizers without a domain, for historical reasons.
_PLAIN_FINALIZERS = ("kubernetes", "orphan", "foregroundDeletion")


def validate_metadata(obj: JsonObject, resource: Resource) -> list[FieldError]:
    """Validate the metadata of `obj` by itself."""
    metadata = obj.get("metadata", {})
    errors = _validate_name(metadata, resource)
    errors += _validate_namespace(metadata, resource)
    errors += _validate_generation(metadata)
    if labels := metadata.get("labels"):
        errors += validate_labels("metadata.labels", labels)
    if annotations := metadata.get("annotations"):
        errors += validate_annotations("metadata.annotations", annotations)
    if owners := metadata.get("ownerReferences"):
        errors += _validate_owners(owners)
    if finalizers := metadata.get("finalizers"):
        errors += _validate_finalizers(finalizers, may_be_plain=resource.has_plain_finalizers)
    return errors


def validate_embedded_metadata(path: str, metadata: JsonObject) -> list[FieldError]:
    """Validate the metadata of an object inside of another one. The name may be absent."""
    name, namespace, generation = metadata.get("name", ""), metadata.get("namespace", ""), metadata.get("generation", 0)
    errors = field.invalid_for(f"{path}.name", name, check_path_segment(name)) if name else []
    if namespace:
        errors += field.invalid_for(f"{path}.namespace", namespace, check_dns1123_label(namespace))
    return [
        *errors,
        *field.non_negative(f"{path}.generation", generation),
        *validate_labels(f"{path}.labels", metadata.get("labels", {})),
        *validate_annotations(f"{path}.annotations", metadata.get("annotations", {})),
        *_below(path, _validate_owners(metadata.get("ownerReferences", ()))),
        *_below(path, _validate_finalizers(metadata.get("finalizers", ()))),
    ]


def _below(path: str, errors: Sequence[FieldError]) -> list[FieldError]:
    return [replace(error, field=path + error.field.removeprefix("metadata")) for error in errors]


def validate_metadata_update(obj: JsonObject, old: JsonObject, resource: Resource) -> list[FieldError]:
    """Validate the change of metadata from `old` to `obj`."""
    metadata, before = obj.get("metadata", {}), old.get("metadata", {})
    errors = [
        field.invalid(f"metadata.{name}", metadata.get(name), field.IMMUTABLE)
        for name in _IMMUTABLE
        if metadata.get(name) != before.get(name)
    ]
    if before.get("deletionTimestamp"):
        added = [f for f in metadata.get("finalizers", ()) if f not in before.get("finalizers", ())]
        if added:
            detail = (
                "no new finalizers can be added if the object is being deleted, found new finalizers "
                f"[]string{{{', '.join(_quote(name) for name in added)}}}"
            )
            errors.append(field.forbidden("metadata.finalizers", detail))
    if metadata.get("generation", 0) < before.get("generation", 0):
        errors.append(field.invalid("metadata.generation", metadata.get("generation", 0), "must not be decremented"))
    return errors


def _quote(text: str) -> str:
    return f'"{text}"'


def _validate_name(metadata: JsonObject, resource: Resource) -> list[FieldError]:
    check = resource.check_name or check_path_segment
    errors = []
    if prefix := metadata.get("generateName"):
        # A suffix will follow the prefix, so a trailing hyphen is allowed.
        masked = prefix[:-1] + "a" if prefix.endswith("-") else prefix
        errors.extend(field.invalid_for("metadata.generateName", prefix, check(masked)))
    name = metadata.get("name", "")
    if not name:
        return [*errors, field.required("metadata.name", "name or generateName is required")]
    return [*errors, *field.invalid_for("metadata.name", name, check(name))]


def _validate_namespace(metadata: JsonObject, resource: Resource) -> list[FieldError]:
    namespace = metadata.get("namespace", "")
    if not resource.namespaced:
        return [field.forbidden("metadata.namespace", "not allowed on this type")] if namespace else []
    if not namespace:
        return [field.required("metadata.namespace")]
    return field.invalid_for("metadata.namespace", namespace, check_dns1123_label(namespace))


def _validate_generation(metadata: JsonObject) -> list[FieldError]:
    return field.non_negative("metadata.generation", metadata.get("generation", 0))


def validate_labels(path: str, labels: Mapping[str, str]) -> list[FieldError]:
    errors = []
    for key, value in labels.items():
        errors.extend(field.invalid_for(path, key, check_qualified_name(key)))
        errors.extend(field.invalid_for(path, value, check_label_value(value)))
    return errors


def validate_annotations(path: str, annotations: Mapping[str, str]) -> list[FieldError]:
    errors = []
    size = 0
    for key, value in annotations.items():
        errors.extend(field.invalid_for(path, key, check_qualified_name(key.lower())))
        size += len(key.encode()) + len(value.encode())
    if size > _ANNOTATIONS_LIMIT:
        errors.append(field.too_long(path, _ANNOTATIONS_LIMIT))
    return errors


def _validate_owners(owners: Sequence[JsonObject]) -> list[FieldError]:
    errors = []
    controller = ""
    path = "metadata.ownerReferences"  # Kubernetes does not name the index
    for owner in owners:
        api_version = owner.get("apiVersion", "")
        if not api_version or api_version.startswith("/") or api_version.endswith("/") or api_version.count("/") > 1:
            errors.append(field.invalid(f"{path}.apiVersion", api_version, "version must not be empty"))
        errors.extend(
            field.invalid(f"{path}.{name}", "", "must not be empty")
            for name in ("kind", "name", "uid")
            if not owner.get(name)
        )
        if (api_version, owner.get("kind")) in _FORBIDDEN_OWNERS:
            detail = f"/{api_version}, Kind={owner.get('kind')} is disallowed from being an owner"
            errors.append(field.invalid(path, owner, detail))
        if owner.get("controller"):
            name = f"{owner.get('kind', '')}/{owner.get('name', '')}"
            if controller:
                detail = (
                    'Only one reference can have Controller set to true. Found "true" in references for '
                    f"{controller} and {name}"
                )
                errors.append(field.invalid(path, list(owners), detail))
            controller = controller or name
    return errors


def _validate_finalizers(finalizers: Sequence[str], *, may_be_plain: bool = True) -> list[FieldError]:
    errors = []
    for finalizer in finalizers:
        errors.extend(field.invalid_for("metadata.finalizers", finalizer, check_qualified_name(finalizer)))
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        detail = "finalizer orphan and foregroundDeletion cannot be both set"
        errors.append(field.invalid("metadata.finalizers", list(finalizers), detail))
    if not may_be_plain:
        for index, finalizer in enumerate(finalizers):
            errors.extend(_validate_plain_finalizer(f"metadata.finalizers[{index}]", finalizer))
    return errors


def _validate_plain_finalizer(path: str, finalizer: str) -> list[FieldError]:
    if "/" in finalizer or finalizer in _PLAIN_FINALIZERS:
        return []
    return [field.invalid(path, finalizer, "name is neither a standard finalizer name nor is it fully qualified")]


def validate_finalizer(path: str, finalizer: str) -> list[FieldError]:
    """Validate a finalizer of a namespace's `spec`."""
    errors = field.invalid_for(path, finalizer, check_qualified_name(finalizer))
    return errors + _validate_plain_finalizer(path, finalizer)


def validate_label_selector(path: str, selector: JsonObject) -> list[FieldError]:
    """Validate a `LabelSelector`; an empty one is valid."""
    errors = validate_labels(f"{path}.matchLabels", selector.get("matchLabels", {}))
    for index, requirement in enumerate(selector.get("matchExpressions", ())):
        errors.extend(validate_requirement(f"{path}.matchExpressions[{index}]", requirement))
    return errors


def selector_text(selector: JsonObject) -> str:
    """Render a `LabelSelector` as for `kubectl -l`: `app=web,tier in (a,b),!old`. Raises ValueError."""
    terms = [(key, f"{key}={value}") for key, value in selector.get("matchLabels", {}).items()]
    for expression in selector.get("matchExpressions", ()):
        key, operator = expression.get("key", ""), expression.get("operator", "")
        values = ",".join(sorted(expression.get("values", ())))
        match operator:
            case "In":
                terms.append((key, f"{key} in ({values})"))
            case "NotIn":
                terms.append((key, f"{key} notin ({values})"))
            case "Exists":
                terms.append((key, key))
            case "DoesNotExist":
                terms.append((key, f"!{key}"))
            case _:
                raise ValueError(f"{operator!r} is not a valid label selector operator")
    return ",".join(text for _, text in sorted(terms, key=lambda term: term[0]))


def validate_requirement(path: str, requirement: JsonObject) -> list[FieldError]:
    """Validate one element of a selector's `matchExpressions`."""
    errors = []
    operator: Any = requirement.get("operator", "")
    values = requirement.get("values", [])
    if operator in ("In", "NotIn"):
        if not values:
            errors.append(field.required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            errors.append(field.forbidden(f"{path}.values", detail))
    else:
        errors.append(field.invalid(f"{path}.operator", operator, "not a valid selector operator"))
    key = requirement.get("key", "")
    errors.extend(field.invalid_for(f"{path}.key", key, check_qualified_name(key)))
    for index, value in enumerate(values):
        errors.extend(field.invalid_for(f"{path}.values[{index}]", value, check_label_value(value)))
    return errors
