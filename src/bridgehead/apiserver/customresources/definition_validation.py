"""Validation of CustomResourceDefinitions.

As in Kubernetes, what all versions have in common is reported once, at the fields that an older version of the API had
for it: `spec.validation`, `spec.subresources`, `spec.additionalPrinterColumns`, `spec.selectableFields`.

Pure: no I/O, no clock, no randomness.
Source: apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go, v1/conversion.go.
"""

from __future__ import annotations

from collections.abc import Sequence

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.shapes import Shape
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
from .paths_validation import validate_columns, validate_selectable_fields, validate_subresources
from .schema import validate_schema

_MAX_WARNING = 256
# Settings that an older version of the API had once for all versions -> the fields of `spec` that it had for it.
_PARTS = {
    "schema": "validation",
    "subresources": "subresources",
    "additionalPrinterColumns": "additionalPrinterColumns",
    "selectableFields": "selectableFields",
}
_MIXED = "may have mixed case, but should otherwise match: "
_PRESERVE = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"


def validate_definition(crd: Field, metadata: Shape) -> None:
    """Validate a new definition. `metadata` is the shape of ObjectMeta."""
    _validate_name(crd)
    _validate_spec(crd, None, metadata)
    _validate_rest(crd, None)


def validate_definition_update(crd: Field, old: JsonObject, metadata: Shape) -> None:
    """Validate a changed definition."""
    spec, before = crd.at("spec"), old["spec"]
    names, names_before = spec.at("names"), before["names"]
    _validate_spec(crd, old, metadata)
    if is_true(old, ESTABLISHED):
        spec.at("scope").must_not_change(before.get("scope"))
        names.at("kind").must_not_change(names_before.get("kind"))
    spec.at("group").must_not_change(before.get("group"))
    names.at("plural").must_not_change(names_before.get("plural"))
    _validate_rest(crd, old)


def validate_definition_status(crd: Field) -> None:
    _validate_names(crd.at("status").at("acceptedNames"))


def _validate_rest(crd: Field, old: JsonObject | None) -> None:
    validate_definition_status(crd)
    _validate_stored_versions(crd)
    validate_approval(crd, old)
    if preserves_unknown_fields(crd.value) and (old is None or not preserves_unknown_fields(old)):
        crd.at("spec").at("preserveUnknownFields").invalid(_PRESERVE)


def _validate_name(crd: Field) -> None:
    name, spec = crd.at("metadata").at("name"), crd.at("spec")
    if name:  # a missing one is reported with the other metadata
        name.must_pass(check_dns1123_subdomain)
        if name.value != f"{spec.at('names').get('plural', '')}.{spec.get('group', '')}":
            name.invalid('must be spec.names.plural+"."+spec.group')


def _validate_spec(crd: Field, old: JsonObject | None, metadata: Shape) -> None:
    spec = crd.at("spec")
    group, scope, names = spec.at("group"), spec.at("scope"), spec.at("names")
    if group.must_be_set_and_pass(lambda name: _in_one(check_dns1123_subdomain(name))) and "." not in group.value:
        group.invalid("should be a domain with at least one dot")
    if scope.must_be_set():
        scope.must_be_one_of(("Cluster", "Namespaced"))
    for version in spec.at("versions").each():
        version.at("schema").at("openAPIV3Schema").must_exist()
    _validate_versions(spec, metadata)
    for name in ("plural", "singular", "kind", "listKind"):
        names.at(name).must_be_set()
    _validate_names(names)
    _validate_common(spec, metadata)
    conversion = spec.at("conversion")
    if conversion and conversion.get("strategy") != "None" and preserves_unknown_fields(crd.value):
        conversion.at("strategy").invalid("must be None if spec.preserveUnknownFields is true")
    validate_conversion(conversion, old)


def _validate_versions(spec: Field, metadata: Shape) -> None:
    versions = spec.at("versions")
    parts = [part for part in _PARTS if not _is_common(versions, part)]
    for version in versions.each():
        version.at("name", "").must_pass(_check_label)
        _validate_deprecation(version)
        schema = schema_of(version.value) if "schema" in parts else None
        for part in parts:
            _validate_part(version.at(part), part, schema, metadata, has_status=_has_status(version.value))
    names = [version.get("name", "") for version in versions.value or ()]
    if len(set(names)) < len(names):
        versions.invalid("must contain unique version names")
    if sum(bool(version.get("storage")) for version in versions.value or ()) != 1:
        versions.invalid("must have exactly one version marked as storage version")
    # An older version of the API had `spec.version`, which is the name of the first version.
    if names and names[0]:
        spec.at("version").showing(names[0]).must_pass(_check_label)


def _validate_common(spec: Field, metadata: Shape) -> None:
    """Validate what all versions have in common."""
    versions = spec.at("versions")
    has_status = any(map(_has_status, versions.value or ()))
    for part, older in _PARTS.items():
        if _is_common(versions, part):
            first = versions.value[0]
            schema = schema_of(first) if _is_common(versions, "schema") else None
            _validate_part(spec.at(older).showing(first[part]), part, schema, metadata, has_status=has_status)


def _is_common(versions: Field, part: str) -> bool:
    return all_equal([version.get(part) for version in versions.value or ()])


def _has_status(version: JsonObject) -> bool:
    return (version.get("subresources") or {}).get("status") is not None


def _validate_part(part: Field, name: str, schema: JsonObject | None, metadata: Shape, *, has_status: bool) -> None:
    """Validate the part `name` of one version or of all. `schema` is the schema at the same level, None without one."""
    match name:
        case "schema":
            declared = part.at("openAPIV3Schema")
            if declared.value is not None:
                validate_schema(declared, metadata, has_status=has_status)
        case "subresources":
            validate_subresources(part)
        case "additionalPrinterColumns":
            validate_columns(part)
        case "selectableFields":
            validate_selectable_fields(part, schema)


def _validate_deprecation(version: Field) -> None:
    warning = version.at("deprecationWarning")
    if warning.value is not None and not version.get("deprecated"):
        warning.invalid("can only be set for deprecated versions")
    else:
        warning.must_pass(_check_warning)


def _check_warning(warning: str) -> list[str]:
    reasons = []
    if len(warning.encode()) > _MAX_WARNING:
        reasons.append(f"must be <= {_MAX_WARNING} characters long")
    if not warning:
        reasons.append("must not be an empty string")
    bad = next((index for index, character in enumerate(warning) if not character.isprintable()), None)
    if bad is not None:
        at = len(warning[:bad].encode())
        reasons.append(f"must only contain printable UTF-8 characters; non-printable character found at index {at}")
    return reasons


def _validate_stored_versions(crd: Field) -> None:
    stored = crd.at("status").at("storedVersions")
    if not stored:
        stored.invalid("must have at least one stored version")
        return
    left = {version.value: version for version in stored.each()}
    for version in versions_of(crd.value):
        name = version.get("name", "")
        if left.pop(name, None) is None and version.get("storage"):
            stored.invalid(f"must have the storage version {name}")
    for name, missing in left.items():
        missing.invalid(
            f"missing from spec.versions; {name} was previously a storage version, and must remain in "
            f"spec.versions until a storage migration ensures no data remains persisted in {name} and removes "
            f"{name} from status.storedVersions"
        )


def _validate_names(names: Field) -> None:
    """Validate the names that are there."""
    kind, list_kind = names.at("kind"), names.at("listKind")
    for name in names.those_set("plural", "singular"):
        name.must_pass(_check_label)
    for name in names.those_set("kind", "listKind"):
        name.must_pass(_check_kind)
    names.at("shortNames").must_all_pass(_check_label)
    if kind and kind.value == list_kind.value:
        list_kind.invalid("kind and listKind may not be the same")
    names.at("categories").must_all_pass(_check_label)


def _check_label(name: str) -> list[str]:
    return _in_one(check_dns1035_label(name))


def _check_kind(kind: str) -> list[str]:
    return _in_one(check_dns1035_label(kind.lower()), _MIXED)


def _in_one(reasons: Sequence[str], before: str = "") -> list[str]:
    """Return the reasons of a check as one, after a text."""
    return [before + ",".join(reasons)] if reasons else []
