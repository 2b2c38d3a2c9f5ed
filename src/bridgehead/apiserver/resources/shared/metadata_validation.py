"""Validation of `metadata`, labels, annotations and label selectors.

`registry` calls `validate_metadata` and `validate_metadata_update` for all objects. Validation of templates and
selectors uses the other functions. Pure: no I/O, no clock, no randomness.
Source: `k8s.io/apimachinery/pkg/api/validation`, `.../apis/meta/v1/validation`.
"""

from __future__ import annotations

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import JsonObject, Resource
from bridgehead.objects.names import check_dns1123_label, check_label_value, check_path_segment, check_qualified_name

_ANNOTATIONS_LIMIT = 256 * 1024
# Kinds that may not own objects: an Event must not keep anything alive.
_FORBIDDEN_OWNERS = {("v1", "Event")}
_IMMUTABLE = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")
# Finalizers without a domain, for historical reasons.
_PLAIN_FINALIZERS = ("kubernetes", "orphan", "foregroundDeletion")


def validate_metadata(obj: Field, resource: Resource) -> None:
    """Validate the metadata of `obj` by itself."""
    metadata = obj.at("metadata")
    _validate_name(metadata, resource)
    namespace = metadata.at("namespace")
    if resource.namespaced:
        namespace.must_be_set_and_pass(check_dns1123_label)
    else:
        namespace.must_not_be_set("not allowed on this type")
    metadata.at("generation").must_not_be_negative()
    validate_labels(metadata.at("labels"))
    validate_annotations(metadata.at("annotations"))
    _validate_owners(metadata.at("ownerReferences"))
    _validate_finalizers(metadata.at("finalizers"), may_be_plain=resource.has_plain_finalizers)


def validate_embedded_metadata(metadata: Field) -> None:
    """Validate the metadata of an object inside of another one. The name may be absent."""
    metadata.if_set("name").must_pass(check_path_segment)
    metadata.if_set("namespace").must_pass(check_dns1123_label)
    metadata.at("generation").must_not_be_negative()
    validate_labels(metadata.at("labels"))
    validate_annotations(metadata.at("annotations"))
    _validate_owners(metadata.at("ownerReferences"))
    _validate_finalizers(metadata.at("finalizers"))


def validate_metadata_update(obj: Field, old: JsonObject) -> None:
    """Validate the change of metadata from `old` to `obj`."""
    metadata, before = obj.at("metadata"), old.get("metadata", {})
    for name in _IMMUTABLE:
        metadata.at(name).must_not_change(before.get(name))
    finalizers, generation = metadata.at("finalizers", ()), metadata.at("generation", 0)
    if before.get("deletionTimestamp"):
        added = [f'"{name}"' for name in finalizers.value if name not in before.get("finalizers", ())]
        if added:
            finalizers.forbidden(
                "no new finalizers can be added if the object is being deleted, found new finalizers "
                f"[]string{{{', '.join(added)}}}"
            )
    generation.must_be_at_least(before.get("generation", 0), "must not be decremented")


def _validate_name(metadata: Field, resource: Resource) -> None:
    check = resource.check_name or check_path_segment
    if prefix := metadata.at("generateName"):
        # A suffix will follow the prefix, so a trailing hyphen is allowed.
        prefix.must_pass(lambda text: check(text[:-1] + "a" if text.endswith("-") else text))
    metadata.at("name").must_be_set_and_pass(check, "name or generateName is required")


def validate_labels(labels: Field) -> None:
    for key, value in (labels.value or {}).items():
        labels.showing(key).must_pass(check_qualified_name)
        labels.showing(value).must_pass(check_label_value)


def validate_annotations(annotations: Field) -> None:
    size = 0
    for key, value in (annotations.value or {}).items():
        annotations.showing(key).must_pass(lambda text: check_qualified_name(text.lower()))
        size += len(key.encode()) + len(value.encode())
    if size > _ANNOTATIONS_LIMIT:
        annotations.too_long(_ANNOTATIONS_LIMIT)


def _validate_owners(owners: Field) -> None:
    controller = ""
    for value in owners.value or ():
        owner = owners.showing(value)  # Kubernetes does not name the index
        api_version = owner.get("apiVersion", "")
        if not api_version or api_version.startswith("/") or api_version.endswith("/") or api_version.count("/") > 1:
            owner.at("apiVersion", "").invalid("version must not be empty")
        for name in ("kind", "name", "uid"):
            if not owner.get(name):
                owner.at(name, "").invalid("must not be empty")
        if (api_version, owner.get("kind")) in _FORBIDDEN_OWNERS:
            owner.invalid(f"/{api_version}, Kind={owner.get('kind')} is disallowed from being an owner")
        if owner.get("controller"):
            name = f"{owner.get('kind', '')}/{owner.get('name', '')}"
            if controller:
                owners.invalid(
                    'Only one reference can have Controller set to true. Found "true" in references for '
                    f"{controller} and {name}"
                )
            controller = controller or name


def _validate_finalizers(finalizers: Field, *, may_be_plain: bool = True) -> None:
    names = finalizers.value or ()
    for name in names:
        finalizers.showing(name).must_pass(check_qualified_name)
    if "orphan" in names and "foregroundDeletion" in names:
        finalizers.invalid("finalizer orphan and foregroundDeletion cannot be both set")
    if not may_be_plain:
        finalizers.must_all_obey(_validate_plain_finalizer)


def _validate_plain_finalizer(finalizer: Field) -> None:
    if "/" not in finalizer.value and finalizer.value not in _PLAIN_FINALIZERS:
        finalizer.invalid("name is neither a standard finalizer name nor is it fully qualified")


def validate_finalizer(finalizer: Field) -> None:
    """Validate a finalizer of a namespace's `spec`."""
    finalizer.must_pass(check_qualified_name)
    _validate_plain_finalizer(finalizer)


def validate_label_selector(selector: Field) -> None:
    """Validate a `LabelSelector`; an empty one is valid."""
    validate_labels(selector.at("matchLabels"))
    for requirement in selector.at("matchExpressions").each():
        validate_operator_and_key(requirement)
        validate_values(requirement)


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


def validate_operator_and_key(requirement: Field) -> None:
    """Validate one element of a selector's `matchExpressions`, but for the form of its values."""
    operator, values = requirement.at("operator", ""), requirement.at("values")
    if operator.value in ("In", "NotIn"):
        values.must_be_set("must be specified when `operator` is 'In' or 'NotIn'")
    elif operator.value in ("Exists", "DoesNotExist"):
        values.must_not_be_set("may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
    else:
        operator.invalid("not a valid selector operator")
    requirement.at("key", "").must_pass(check_qualified_name)


def validate_values(requirement: Field) -> None:
    """Validate the values of an element of `matchExpressions`."""
    requirement.at("values").must_all_pass(check_label_value)
