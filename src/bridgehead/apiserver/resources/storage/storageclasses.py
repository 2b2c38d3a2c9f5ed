"""StorageClass (storage.k8s.io/v1): its entry in the table, its defaults and its rules.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidateStorageClass`, `ValidateStorageClassUpdate`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import Column, JsonObject, Resource, Strategy
from bridgehead.apiserver.resources.shared import field
from bridgehead.apiserver.resources.shared.columns import AGE, NAME, at, boolean_column, text_column
from bridgehead.apiserver.resources.shared.node_labels import warn_of_label
from bridgehead.apiserver.resources.shared.storage_rules import validate_parameters, validate_provisioner
from bridgehead.objects.names import check_dns1123_subdomain, check_qualified_name

_DEFAULT_ANNOTATION = "storageclass.kubernetes.io/is-default-class"
_BETA_DEFAULT_ANNOTATION = "storageclass.beta.kubernetes.io/is-default-class"

_RECLAIM_POLICIES = ("Delete", "Retain")
_BINDING_MODES = ("Immediate", "WaitForFirstConsumer")
_EMPTY_TERM: frozenset[tuple[str, frozenset[str]]] = frozenset()
_MAX_DUPLICATES = 1000
_FORBIDDEN = ("parameters", "provisioner", "reclaimPolicy")


class StorageClassStrategy(Strategy):
    def default(self, obj: JsonObject) -> None:
        obj.setdefault("reclaimPolicy", "Delete")
        obj.setdefault("volumeBindingMode", "Immediate")

    def validate(self, obj: JsonObject) -> list[FieldError]:
        errors = field.errors_below("provisioner", validate_provisioner, obj.get("provisioner", ""))
        errors.extend(field.errors_below("parameters", validate_parameters, obj.get("parameters", {})))
        if policy := obj.get("reclaimPolicy"):
            errors.extend(field.one_of("reclaimPolicy", policy, _RECLAIM_POLICIES))
        errors.extend(field.one_of("volumeBindingMode", obj.get("volumeBindingMode"), _BINDING_MODES))
        return [*errors, *_validate_topologies("allowedTopologies", obj.get("allowedTopologies", ()))]

    def validate_update(self, obj: JsonObject, old: JsonObject, subresource: str) -> list[FieldError]:
        changed = [name for name in _FORBIDDEN if obj.get(name) != old.get(name)]
        errors = [field.forbidden(name, f"updates to {name} are forbidden.") for name in changed]
        if obj.get("volumeBindingMode") != old.get("volumeBindingMode"):
            errors.append(field.invalid("volumeBindingMode", obj.get("volumeBindingMode"), field.IMMUTABLE))
        return errors

    def warnings(self, obj: JsonObject) -> list[str]:
        return [
            warning
            for index, term in enumerate(obj.get("allowedTopologies", ()))
            for number, expression in enumerate(term.get("matchLabelExpressions", ()))
            for warning in warn_of_label(
                f"allowedTopologies[{index}].matchLabelExpressions[{number}].key", expression.get("key", "")
            )
        ]


def _validate_topologies(path: str, terms: Sequence[JsonObject]) -> list[FieldError]:
    errors = []
    duplicates = 0
    # Kubernetes also compares with an empty term for each term.
    seen = Counter({_EMPTY_TERM: len(terms)})
    for index, term in enumerate(terms):
        item = f"{path}[{index}].matchLabelExpressions"
        values_of: dict[str, frozenset[str]] = {}
        for number, expression in enumerate(term.get("matchLabelExpressions", ())):
            here, key, values = f"{item}[{number}]", expression.get("key", ""), expression.get("values", [])
            if not values:
                errors.append(field.required(f"{here}.values"))
            errors.extend(field.duplicate(f"{here}.values[{i}]", values[i]) for i in field.repeated(values))
            errors.extend(field.invalid_for(f"{here}.key", key, check_qualified_name(key)))
            if key in values_of:
                errors.append(field.duplicate(f"{here}.key", key))
            values_of[key] = frozenset(values)
        same = frozenset(values_of.items())
        # Each earlier term is an error; there must be an end of them.
        found = min(seen[same], _MAX_DUPLICATES - duplicates)
        errors.extend([field.duplicate(item, "")] * found)
        duplicates += found
        seen[same] += 1
    return errors


def is_default(storage_class: JsonObject) -> bool:
    annotations = at(storage_class, "metadata", "annotations") or {}
    return "true" in (annotations.get(_DEFAULT_ANNOTATION), annotations.get(_BETA_DEFAULT_ANNOTATION))


def _name_cell(storage_class: JsonObject, now: float) -> str:
    return f"{NAME.cell(storage_class, now)}{' (default)' if is_default(storage_class) else ''}"


RESOURCE = Resource(
    group="storage.k8s.io",
    version="v1",
    kind="StorageClass",
    plural="storageclasses",
    singular="storageclass",
    namespaced=False,
    short_names=("sc",),
    strategy=StorageClassStrategy(),
    columns=(
        Column("Name", _name_cell, format="name", description=NAME.description),
        text_column("Provisioner", "provisioner"),
        text_column("ReclaimPolicy", "reclaimPolicy"),
        text_column("VolumeBindingMode", "volumeBindingMode"),
        boolean_column("AllowVolumeExpansion", "allowVolumeExpansion", type="string"),
        AGE,
    ),
    returns_deleted=True,
    check_name=check_dns1123_subdomain,
)
