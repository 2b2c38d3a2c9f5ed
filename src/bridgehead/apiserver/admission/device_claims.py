"""Rights to what ResourceClaims grant: administrators' access to devices, and the parts of a claim's status.

Kubernetes checks both in the storage of the kinds; here a plug-in does it, which knows the user.
Source: Kubernetes pkg/registry/resource/utils.go.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from bridgehead.apiserver.access.authorization import Authorizer, refusal
from bridgehead.apiserver.access.token_claims import PREFIX
from bridgehead.apiserver.errors import invalid
from bridgehead.apiserver.field import Field, FieldError
from bridgehead.apiserver.http.request_info import RequestInfo
from bridgehead.apiserver.http.user import NODE_NAME, User
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.devices import (
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    changed_drivers,
    node_of_allocation,
)
from bridgehead.apiserver.resources.shared.columns import at
from bridgehead.storage import Key, Store

from .attributes import CREATE, UPDATE, Attributes, shown_name
from .chain import Plugin

_ADMIN_LABEL = "resource.kubernetes.io/admin-access"


class DeviceRights(Plugin):
    """Refuses access as an administrator in other namespaces than those for it, and changes without their right."""

    is_static = True

    def __init__(self, store: Store, authorizer: Authorizer) -> None:
        self._store = store
        self._authorizer = authorizer

    def handles(self, attributes: Attributes) -> bool:
        is_claim = attributes.resource.id == RESOURCE_CLAIMS.id
        if attributes.operation == CREATE:
            return is_claim or attributes.resource.id == RESOURCE_CLAIM_TEMPLATES.id
        return attributes.operation == UPDATE and is_claim and attributes.subresource == "status"

    async def validate(self, attributes: Attributes, obj: JsonObject, old: JsonObject) -> None:
        if attributes.operation == CREATE:
            errors = self._refuse_admin(attributes.namespace, _admin_request(obj))
        else:
            errors = self._refuse_status(attributes, obj.get("status", {}), old.get("status", {}))
        if errors:
            resource = attributes.resource
            raise invalid(resource.group, resource.kind, attributes.name or shown_name(obj), errors)

    def _refuse_admin(self, namespace: str, path: str) -> list[FieldError]:
        """Return the error for a field that asks for an administrator's access; "": none does."""
        if not path:
            return []
        record = self._store.get(Key("namespaces", "", namespace))
        labels = {} if record is None else msgspec.json.decode(record.value)["metadata"].get("labels", {})
        if labels.get(_ADMIN_LABEL) == "true":
            return []
        why = f"admin access to devices requires the `{_ADMIN_LABEL}: true` label on the containing namespace"
        return [Field(None, path).forbidden(why)]

    def _refuse_status(self, attributes: Attributes, status: JsonObject, before: JsonObject) -> list[FieldError]:
        errors = []
        if not _admin_result(before):
            errors += self._refuse_admin(attributes.namespace, _admin_result(status))
        verb, group, plural = attributes.verb, attributes.resource.group, attributes.resource.plural
        request = RequestInfo("", verb, True, group, attributes.resource.version, "", plural, "", "binding")
        if any(status.get(name) != before.get(name) for name in ("allocation", "reservedFor")):
            changed = "status.allocation or status.reservedFor"
            errors += self._refuse("status", changed, f'"{plural}/binding", verb="{verb}"', attributes.user, [request])
        verbs = [f"arbitrary-node:{verb}"]
        if _is_of_node(attributes.user, node_of_allocation(status.get("allocation") or {})):
            verbs.insert(0, f"associated-node:{verb}")
        right = f'"{plural}/driver", verb="[{" ".join(verbs)}]"'
        for driver in sorted(changed_drivers(status, before)):
            requests = [
                RequestInfo("", one, True, group, request.version, attributes.namespace, plural, driver, "driver")
                for one in verbs
            ]
            errors += self._refuse("status.devices", "status.devices", right, attributes.user, requests)
        return errors

    def _refuse(
        self, path: str, changed: str, right: str, user: User, requests: Sequence[RequestInfo]
    ) -> list[FieldError]:
        """Return an error unless the user may make one of the requests."""
        decisions = [self._authorizer.decide(user, request) for request in requests]
        if any(decision.allowed for decision in decisions):
            return []
        why = refusal(user, requests[0], decisions[0].reason).message
        return [Field(None, path).forbidden(f"changing {changed} requires resource={right} permission: {why}")]


def _admin_request(obj: JsonObject) -> str:
    """Return the path of a request for an administrator's access, "" without one."""
    spec = obj.get("spec", {})
    for index, request in enumerate(at(spec.get("spec", spec), "devices", "requests") or ()):
        if at(request, "exactly", "adminAccess"):
            return f"spec.devices.requests[{index}].adminAccess"
    return ""


def _admin_result(status: JsonObject) -> str:
    """Return the path of an allocation with an administrator's access, "" without one."""
    for index, result in enumerate(at(status, "allocation", "devices", "results") or ()):
        if result.get("adminAccess"):
            return f"status.allocation.devices.results[{index}].adminAccess"
    return ""


def _is_of_node(user: User, node: str) -> bool:
    """Whether a user is a service account in a pod of this node."""
    return bool(node) and user.name.startswith(PREFIX) and tuple(user.extra.get(NODE_NAME, ())) == (node,)
