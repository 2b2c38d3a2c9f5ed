"""StorageClass (storage.k8s.io/v1): its entry in the table, its defaults and its rules.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidateStorageClass`, `ValidateStorageClassUpdate`.
"""

from __future__ import annotations

from collections import Counter

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import Column, JsonObject, Resource, Strategy
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

    def validate(self, obj: Field) -> None:
        validate_provisioner(obj.at("provisioner"))
        validate_parameters(obj.at("parameters"))
        obj.if_set("reclaimPolicy").must_be_one_of(_RECLAIM_POLICIES)
        obj.at("volumeBindingMode").must_be_one_of(_BINDING_MODES)
        _validate_topologies(obj.at("allowedTopologies"))

    def validate_update(self, obj: Field, old: JsonObject, subresource: str) -> None:
        for name in _FORBIDDEN:
            if obj.get(name) != old.get(name):
                obj.at(name).forbidden(f"updates to {name} are forbidden.")
        obj.at("volumeBindingMode").must_not_change(old.get("volumeBindingMode"))

    def warnings(self, obj: JsonObject) -> list[str]:
        return [
            warning
            for index, term in enumerate(obj.get("allowedTopologies", ()))
            for number, expression in enumerate(term.get("matchLabelExpressions", ()))
            for warning in warn_of_label(
                f"allowedTopologies[{index}].matchLabelExpressions[{number}].key", expression.get("key", "")
            )
        ]


def _validate_topologies(terms: Field) -> None:
    duplicates = 0
    # Kubernetes also compares with an empty term for each term.
    seen = Counter({_EMPTY_TERM: len(terms.value or ())})
    for term in terms.each():
        expressions = term.at("matchLabelExpressions")
        values_of: dict[str, frozenset[str]] = {}
        for expression in expressions.each():
            key, values = expression.at("key", ""), expression.at("values", ())
            values.must_be_set()
            values.must_have_no_duplicates()
            key.must_pass(check_qualified_name)
            if key.value in values_of:
                key.duplicate()
            values_of[key.value] = frozenset(values.value)
        same = frozenset(values_of.items())
        # Each earlier term is an error; there must be an end of them.
        found = min(seen[same], _MAX_DUPLICATES - duplicates)
        for _ in range(found):
            expressions.showing("").duplicate()
        duplicates += found
        seen[same] += 1


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
