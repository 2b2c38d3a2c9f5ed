"""ControllerRevision (apps/v1): its entry in the table and its rules.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidateControllerRevision`, `printControllerRevision`.
"""

from __future__ import annotations

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import Column, JsonObject, Resource, Strategy
from bridgehead.apiserver.resources.shared.columns import AGE, NAME, NONE, number_column
from bridgehead.objects.names import check_dns1123_subdomain


class ControllerRevisionStrategy(Strategy):
    def default(self, obj: JsonObject) -> None:
        obj.setdefault("revision", 0)

    def validate(self, obj: Field) -> None:
        obj.at("data").must_exist("data is mandatory")
        obj.at("revision").must_not_be_negative()

    def validate_update(self, obj: Field, old: JsonObject, subresource: str) -> None:
        obj.at("data").must_not_change(old.get("data"))


def _controller_cell(obj: JsonObject, now: float) -> str:
    for owner in obj.get("metadata", {}).get("ownerReferences", ()):
        if owner.get("controller"):
            group = str(owner.get("apiVersion", "")).rpartition("/")[0]
            kind = f"{owner.get('kind', '')}.{group}" if group else str(owner.get("kind", ""))
            return f"{kind.lower()}/{owner.get('name', '')}"
    return NONE


RESOURCE = Resource(
    group="apps",
    version="v1",
    kind="ControllerRevision",
    plural="controllerrevisions",
    singular="controllerrevision",
    namespaced=True,
    strategy=ControllerRevisionStrategy(),
    columns=(NAME, Column("Controller", _controller_cell), number_column("Revision", "revision", type="string"), AGE),
    check_name=check_dns1123_subdomain,
)
