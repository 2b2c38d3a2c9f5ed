"""Authorization: `system:masters`, nodes, and the roles and bindings in the store.

Members of `system:masters` may do everything. The rights of nodes depend on the objects that their pods use
(`node_authorizer`); all other rights are those of RBAC objects (`rbac`).
Source: Kubernetes "Authorization Overview", pkg/kubeapiserver/authorizer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bridgehead.apiserver.errors import ApiStatus, qualified
from bridgehead.apiserver.http.request_info import RequestInfo
from bridgehead.apiserver.http.user import User

from .rbac.policy_cache import StoredPolicy
from .rbac.rbac_authorizer import Decision, Resolved

MASTERS = "system:masters"

NodeAuthorizer = Callable[[User, RequestInfo], Decision]

_ALLOWED = Decision(True)


@dataclass(frozen=True, slots=True)
class Authorizer:
    """`node` decides first, then the roles and bindings of `policy`."""

    policy: StoredPolicy
    node: NodeAuthorizer

    def decide(self, user: User, request: RequestInfo) -> Decision:
        if MASTERS in user.groups:
            return _ALLOWED
        by_node = self.node(user, request)
        if by_node.allowed:
            return by_node
        decision = self.policy.current().decide(user, request)
        if decision.allowed or not by_node.reason:
            return decision
        return Decision(False, "\n".join(filter(None, (by_node.reason, decision.reason))))

    def rules_of(self, user: User, namespace: str = "") -> Resolved:
        """Return the rules of a user's roles in a namespace, and errors of roles that do not exist."""
        return self.policy.current().rules_of(user, namespace)

    def check(self, user: User, request: RequestInfo) -> None:
        """Raise a 403 unless the user may make the request."""
        decision = self.decide(user, request)
        if not decision.allowed:
            raise refusal(user, request, decision.reason)


def refusal(user: User, request: RequestInfo, reason: str = "") -> ApiStatus:
    if not request.is_resource:
        message = f'forbidden: User "{user.name}" cannot {request.verb} path "{request.path}"'
        return ApiStatus(403, "Forbidden", message, {})
    where = f'in the namespace "{request.namespace}"' if request.namespace else "at the cluster scope"
    subject = qualified(request.resource, request.group)
    if request.name:
        subject += f' "{request.name}"'
    message = (
        f'{subject} is forbidden: User "{user.name}" cannot {request.verb} resource "{request.rule_resource}" '
        f'in API group "{request.group}" {where}'
    )
    if reason:
        message += f": {reason}"
    details = {"kind": request.resource}
    if request.group:
        details["group"] = request.group
    if request.name:
        details["name"] = request.name
    return ApiStatus(403, "Forbidden", message, details)
