"""Validation of CustomResourceDefinitions.

As in Kubernetes, what all versions have in common is reported once, at the fields that an older version of the API had
for it: `spec.validation`, `spec.subresources`, `spec.additionalPrinterColumns`, `spec.selectableFields`.

Pure: no I/O, no clock, no randomness.
Source: apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go, v1/conversion.go.
"""

from __future__ import annotations

from typing import Any

from bridgehead.apiserver.bodies.shapes import Shape
from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared import field
from bridgehead.objects.names import check_dns1035_label, check_dns1123_subdomain

from .approval import validate_approval
from .conversion_validation import validate_conversion
from .definitions import (
    ESTABLISHED,
    all_equal,
    is_true,
    preserves_unknown_fields,
    schema_of,
    versions_of,
)
from .names_validation import joined, validate_names, validate_required_names
from .paths_validation import validate_columns, validate_selectable_fields, validate_subresources
from .schema import validate_schema

_MAX_WARNING = 256
# What an older version of the API had once for all versions.
_PARTS = ("schema", "subresources", "additionalPrinterColumns", "selectableFields")
_PRESERVE = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"


def validate_definition(crd: JsonObject, metadata: Shape) -> list[FieldError]:
    """Validate a new definition. `metadata` is the shape of ObjectMeta."""
    return [
        *_validate_name(crd),
        *_validate_spec(crd, None, metadata),
        *validate_definition_status(crd),
        *_validate_stored_versions(crd),
        *validate_approval(crd, None),
        *_validate_preserve_unknown(crd, None),
    ]


def validate_definition_update(crd: JsonObject, old: JsonObject, metadata: Shape) -> list[FieldError]:
    """Validate a changed definition."""
    spec, before = crd["spec"], old["spec"]
    errors = _validate_spec(crd, old, metadata)
    if is_true(old, ESTABLISHED):
        errors += _immutable("spec.scope", spec.get("scope"), before.get("scope"))
        errors += _immutable("spec.names.kind", spec["names"].get("kind"), before["names"].get("kind"))
    errors += _immutable("spec.group", spec.get("group"), before.get("group"))
    errors += _immutable("spec.names.plural", spec["names"].get("plural"), before["names"].get("plural"))
    return [
        *errors,
        *validate_definition_status(crd),
        *_validate_stored_versions(crd),
        *validate_approval(crd, old),
        *_validate_preserve_unknown(crd, old),
    ]


def validate_definition_status(crd: JsonObject) -> list[FieldError]:
    return validate_names("status.acceptedNames", crd.get("status", {}).get("acceptedNames") or {})


def _immutable(path: str, new: Any, old: Any) -> list[FieldError]:
    return [] if new == old else [field.invalid(path, new, field.IMMUTABLE)]


def _validate_name(crd: JsonObject) -> list[FieldError]:
    name, spec = crd["metadata"].get("name", ""), crd["spec"]
    if not name:
        return []  # reported with the other metadata
    reasons = check_dns1123_subdomain(name)
    if name != f"{spec['names'].get('plural', '')}.{spec.get('group', '')}":
        reasons = [*reasons, 'must be spec.names.plural+"."+spec.group']
    return field.invalid_for("metadata.name", name, reasons)


def _validate_spec(crd: JsonObject, old: JsonObject | None, metadata: Shape) -> list[FieldError]:
    spec, versions = crd["spec"], versions_of(crd)
    group = spec.get("group", "")
    errors: list[FieldError] = []
    if not group:
        errors.append(field.required("spec.group"))
    elif reasons := check_dns1123_subdomain(group):
        errors.append(field.invalid("spec.group", group, joined(reasons)))
    elif "." not in group:
        errors.append(field.invalid("spec.group", group, "should be a domain with at least one dot"))
    errors += _one_of("spec.scope", spec.get("scope", ""), ("Cluster", "Namespaced"))
    errors += [
        field.required(f"spec.versions[{index}].schema.openAPIV3Schema")
        for index, version in enumerate(versions)
        if schema_of(version) is None
    ]
    errors += _validate_versions(spec, versions, metadata)
    errors += validate_required_names(spec["names"]) + validate_names("spec.names", spec["names"])
    errors += _validate_common(versions, metadata)
    conversion = spec.get("conversion")
    if conversion and conversion.get("strategy") != "None" and preserves_unknown_fields(crd):
        why = "must be None if spec.preserveUnknownFields is true"
        errors.append(field.invalid("spec.conversion.strategy", conversion.get("strategy"), why))
    return errors + validate_conversion(conversion, old)


def _one_of(path: str, value: str, accepted: tuple[str, ...]) -> list[FieldError]:
    return field.one_of(path, value, accepted) if value else [field.required(path)]


def _validate_versions(spec: JsonObject, versions: list[JsonObject], metadata: Shape) -> list[FieldError]:
    errors: list[FieldError] = []
    is_schema_apart = _is_common(versions, "schema")
    for index, version in enumerate(versions):
        path, name = f"spec.versions[{index}]", version.get("name", "")
        if reasons := check_dns1035_label(name):
            errors.append(field.invalid(f"{path}.name", name, joined(reasons)))
        errors += _validate_deprecation(path, version)
        for part in _PARTS:
            if not _is_common(versions, part):
                errors += _validate_part(
                    f"{path}.{part}",
                    part,
                    version,
                    metadata,
                    has_status=_has_status(version),
                    is_schema_apart=is_schema_apart,
                )
    shown, names = spec.get("versions"), [version.get("name", "") for version in versions]
    if len(set(names)) < len(names):
        errors.append(field.invalid("spec.versions", shown, "must contain unique version names"))
    if sum(bool(version.get("storage")) for version in versions) != 1:
        why = "must have exactly one version marked as storage version"
        errors.append(field.invalid("spec.versions", shown, why))
    # An older version of the API had `spec.version`, which is the name of the first version.
    if names and names[0] and (reasons := check_dns1035_label(names[0])):
        errors.append(field.invalid("spec.version", names[0], joined(reasons)))
    return errors


def _validate_common(versions: list[JsonObject], metadata: Shape) -> list[FieldError]:
    """Validate what all versions have in common."""
    errors: list[FieldError] = []
    has_status = any(map(_has_status, versions))
    is_schema_apart = not _is_common(versions, "schema")
    for part in _PARTS:
        if _is_common(versions, part):
            path = "spec.validation" if part == "schema" else f"spec.{part}"
            errors += _validate_part(
                path, part, versions[0], metadata, has_status=has_status, is_schema_apart=is_schema_apart
            )
    return errors


def _is_common(versions: list[JsonObject], part: str) -> bool:
    return all_equal([version.get(part) for version in versions])


def _has_status(version: JsonObject) -> bool:
    return (version.get("subresources") or {}).get("status") is not None


def _validate_part(
    path: str, part: str, version: JsonObject, metadata: Shape, *, has_status: bool, is_schema_apart: bool
) -> list[FieldError]:
    """Validate a part of a version, which is at `path`. `is_schema_apart`: the schema is not at the same level."""
    schema, value = schema_of(version), version.get(part)
    match part:
        case "schema" if schema is not None:
            return validate_schema(f"{path}.openAPIV3Schema", schema, metadata, has_status=has_status)
        case "subresources":
            return validate_subresources(path, value or {})
        case "additionalPrinterColumns":
            return validate_columns(path, value or ())
        case "selectableFields":
            return validate_selectable_fields(path, value or (), None if is_schema_apart else schema)
    return []


def _validate_deprecation(path: str, version: JsonObject) -> list[FieldError]:
    warning = version.get("deprecationWarning")
    if warning is None:
        return []
    path = f"{path}.deprecationWarning"
    if not version.get("deprecated"):
        return [field.invalid(path, warning, "can only be set for deprecated versions")]
    reasons = []
    if len(warning.encode()) > _MAX_WARNING:
        reasons.append(f"must be <= {_MAX_WARNING} characters long")
    if not warning:
        reasons.append("must not be an empty string")
    bad = next((index for index, character in enumerate(warning) if not character.isprintable()), None)
    if bad is not None:
        at = len(warning[:bad].encode())
        reasons.append(f"must only contain printable UTF-8 characters; non-printable character found at index {at}")
    return field.invalid_for(path, warning, reasons)


def _validate_stored_versions(crd: JsonObject) -> list[FieldError]:
    path, stored = "status.storedVersions", crd.get("status", {}).get("storedVersions")
    if not stored:
        return [field.invalid(path, stored, "must have at least one stored version")]
    errors = []
    left = {name: index for index, name in enumerate(stored)}
    for version in versions_of(crd):
        name = version.get("name", "")
        if left.pop(name, None) is None and version.get("storage"):
            errors.append(field.invalid(path, stored, f"must have the storage version {name}"))
    for name, index in left.items():
        why = (
            f"missing from spec.versions; {name} was previously a storage version, and must remain in "
            f"spec.versions until a storage migration ensures no data remains persisted in {name} and removes "
            f"{name} from status.storedVersions"
        )
        errors.append(field.invalid(f"{path}[{index}]", name, why))
    return errors


def _validate_preserve_unknown(crd: JsonObject, old: JsonObject | None) -> list[FieldError]:
    if not preserves_unknown_fields(crd) or (old is not None and preserves_unknown_fields(old)):
        return []
    return [field.invalid("spec.preserveUnknownFields", True, _PRESERVE)]
