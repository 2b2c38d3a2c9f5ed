"""What Deployment, ReplicaSet and DaemonSet have in common: a selector, a template, and what may not change.

Called by their strategies.
"""

from __future__ import annotations

from bridgehead.apiserver.resource import JsonObject, Strategy

from .pod_defaults import set_spec_defaults


class WorkloadStrategy(Strategy):
    """The defaults and the division between spec and status; kinds add their own."""

    def default(self, obj: JsonObject) -> None:
        template: JsonObject = obj.setdefault("spec", {}).setdefault("template", {})
        template.setdefault("metadata", {})
        set_spec_defaults(template.setdefault("spec", {}))

    def prepare_create(self, obj: JsonObject) -> None:
        obj["status"] = {}

    def prepare_update(self, obj: JsonObject, old: JsonObject, subresource: str) -> None:
        if subresource == "status":
            obj["spec"] = old["spec"]
        else:
            obj["status"] = old.get("status", {})
