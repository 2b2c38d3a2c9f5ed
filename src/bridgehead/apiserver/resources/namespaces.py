"""Namespace (core/v1): its entry in the table, its defaults and its rules.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import JsonObject, Resource, Strategy
from bridgehead.objects.names import check_dns1123_label

from .shared.columns import AGE, NAME, selectable, text_column
from .shared.metadata_validation import validate_finalizer

_FINALIZER = "kubernetes"  # keeps the namespace until its content is deleted
_NAME_LABEL = "kubernetes.io/metadata.name"


class NamespaceStrategy(Strategy):
    def default(self, obj: JsonObject) -> None:
        if name := obj.get("metadata", {}).get("name"):
            obj["metadata"].setdefault("labels", {})[_NAME_LABEL] = name
        obj.setdefault("spec", {})
        status = obj.setdefault("status", {})
        status["phase"] = status.get("phase") or "Active"

    def prepare_create(self, obj: JsonObject) -> None:
        obj["status"] = {"phase": "Active"}
        finalizers = obj["spec"].setdefault("finalizers", [])
        if _FINALIZER not in finalizers:
            finalizers.append(_FINALIZER)

    def prepare_update(self, obj: JsonObject, old: JsonObject, subresource: str) -> None:
        if subresource != "finalize":  # only the subresource `finalize` may change finalizers
            obj["spec"] = old.get("spec", {})
        if subresource != "status":
            obj["status"] = old.get("status", {"phase": "Active"})

    def validate(self, obj: Field) -> None:
        finalizers = obj.at("spec").at("finalizers")
        for name in finalizers.value or ():
            validate_finalizer(finalizers.showing(name))

    def validate_update(self, obj: Field, old: JsonObject, subresource: str) -> None:
        if subresource != "status":
            return
        is_deleted = bool(obj.at("metadata").get("deletionTimestamp"))
        wanted, phase = "Terminating" if is_deleted else "Active", obj.at("status").get("phase")
        if phase != wanted:
            shown = Field(phase, "status.Phase", obj)  # the path in Kubernetes' error texts
            shown.invalid(f"may only be '{wanted}' if `deletionTimestamp` is {'not ' if is_deleted else ''}empty")


RESOURCE = Resource(
    group="",
    version="v1",
    kind="Namespace",
    plural="namespaces",
    singular="namespace",
    namespaced=False,
    short_names=("ns",),
    subresources=("status", "finalize"),
    deletes_collections=False,
    strategy=NamespaceStrategy(),
    columns=(NAME, text_column("Status", "status", "phase"), AGE),
    selectable={"status.phase": selectable("status", "phase")},
    returns_deleted=True,
    check_name=check_dns1123_label,
)
