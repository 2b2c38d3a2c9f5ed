"""What a node may put into the objects it writes; `node_authorizer` has said by then that it may write them.

Its name is in the body of a create, so only here it can be seen (pure; source: plugin/pkg/admission/noderestriction).
"""

from __future__ import annotations

from bridgehead.apiserver.errors import forbidden
from bridgehead.apiserver.http.user import User
from bridgehead.apiserver.resource import JsonObject, Resource

from .node_authorizer import node_name_of


def check_node_create(user: User, resource: Resource, obj: JsonObject) -> None:
    """Raises a 403 when a node creates another node's Node or Lease."""
    node = node_name_of(user)
    if node is None:
        return
    name = obj.get("metadata", {}).get("name", "")
    if name == node:
        return
    match resource.id:
        case "nodes":
            raise forbidden(resource, name, f'node "{node}" is not allowed to modify node "{name}"')
        case "leases.coordination.k8s.io":
            why = "can only access node lease with the same name as the requesting node"
            raise forbidden(resource, name, why)


def check_node_token(user: User, accounts: Resource, name: str, pod: tuple[str, str] | None, node_of_pod: str) -> None:
    """Raises a 403 when a node asks for a token that is not for one of its pods."""
    node = node_name_of(user)
    if node is None:
        return
    if pod is None:
        raise forbidden(accounts, name, "node requested token not bound to a pod")
    if node_of_pod != node:
        raise forbidden(accounts, name, "node requested token bound to a pod scheduled on a different node")
