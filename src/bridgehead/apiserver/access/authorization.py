"""Authorization by a built-in policy, in RBAC's vocabulary.

`system:masters` may do everything; anonymous users may read the server's health. The policy below covers all other
users but nodes, whose rights depend on the objects that their pods use (`node_authorizer`).
Source: Kubernetes "Using RBAC Authorization", bootstrappolicy/policy.go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from bridgehead.apiserver.errors import ApiStatus, qualified
from bridgehead.apiserver.http.paths import RequestInfo
from bridgehead.apiserver.http.user import AUTHENTICATED, UNAUTHENTICATED, User

MASTERS = "system:masters"


@dataclass(frozen=True, slots=True)
class Rule:
    """A PolicyRule. "*" stands for all; a resource may be `pods/status`, a URL may end in `*`.

    A rule with a `namespace` applies only there, as if granted by a RoleBinding.
    """

    verbs: tuple[str, ...]
    groups: tuple[str, ...] = ("",)
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()
    namespace: str = ""

    def allows(self, request: RequestInfo) -> bool:
        if not _includes(self.verbs, request.verb):
            return False
        if not request.is_resource:
            return any(
                url == request.path or (url.endswith("*") and request.path.startswith(url[:-1])) for url in self.urls
            )
        return (
            _includes(self.groups, request.group)
            and _includes(self.resources, request.rule_resource)
            and (not self.names or request.name in self.names)
            and (not self.namespace or self.namespace == request.namespace)
        )


def _includes(values: tuple[str, ...], wanted: str) -> bool:
    return "*" in values or wanted in values


_READ = ("get", "list", "watch")
_CHANGE = ("create", "update", "patch", "delete")

HEALTH = Rule(
    ("get", "head"),
    urls=("/healthz", "/healthz/*", "/livez", "/livez/*", "/readyz", "/readyz/*", "/version", "/version/"),
)
DISCOVERY = Rule(("get", "head"), urls=("/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*"))
_REVIEWS = (
    Rule(
        ("create",),
        ("authorization.k8s.io",),
        ("selfsubjectaccessreviews", "selfsubjectrulesreviews"),
    ),
    Rule(("create",), ("authentication.k8s.io",), ("selfsubjectreviews",)),
)
_EVENTS = Rule(("create", "update", "patch"), ("", "events.k8s.io"), ("events",))
_LEASES = Rule((*_READ, *_CHANGE), ("coordination.k8s.io",), ("leases",))

_CONTROLLER_MANAGER = (
    # The garbage collector and the namespace controller work on all resources. Not verb "*": it includes `impersonate`.
    Rule((*_READ, *_CHANGE, "deletecollection"), ("*",), ("*",)),
    Rule(("get",), urls=("*",)),
)
_SCHEDULER = (
    Rule(_READ, ("*",), ("*",)),
    Rule(("create",), ("",), ("bindings", "pods/binding")),
    Rule(("patch", "update"), ("",), ("pods/status",)),
    Rule(("delete",), ("",), ("pods",)),
    _EVENTS,
    _LEASES,
)
_PROXY = (
    Rule(_READ, ("",), ("services", "endpoints", "nodes")),
    Rule(_READ, ("discovery.k8s.io",), ("endpointslices",)),
    Rule(_READ, ("networking.k8s.io",), ("servicecidrs",)),
    _EVENTS,
    # The Leases in which proxies publish their progress; not in ClusterRole system:node-proxier.
    Rule(("create", "patch"), ("coordination.k8s.io",), ("leases",), namespace="kube-system"),
)
# As ClusterRole system:coredns.
_DNS = (
    Rule(_READ, ("",), ("services", "endpoints", "namespaces", "pods")),
    Rule(_READ, ("discovery.k8s.io",), ("endpointslices",)),
)

# Subject (a user, or a group with the prefix "group:") -> its rules.
POLICY: dict[str, tuple[Rule, ...]] = {
    f"group:{UNAUTHENTICATED}": (HEALTH,),
    f"group:{AUTHENTICATED}": (HEALTH, DISCOVERY, *_REVIEWS),
    f"group:{MASTERS}": (Rule(("*",), ("*",), ("*",)), Rule(("*",), urls=("*",))),
    "system:kube-controller-manager": _CONTROLLER_MANAGER,
    "system:kube-scheduler": _SCHEDULER,
    "system:kube-proxy": _PROXY,
    "system:serviceaccount:kube-system:kube-proxy": _PROXY,
    "system:serviceaccount:kube-system:bridgehead-dns": _DNS,
}


class Decision(NamedTuple):
    """A decision. `reason` is "" when it is only that no rule allows the request."""

    allowed: bool
    reason: str = ""


NodeAuthorizer = Callable[[User, RequestInfo], Decision]


@dataclass(frozen=True, slots=True)
class Authorizer:
    """The policy, and then `node` for requests of nodes that no rule of the policy allows."""

    policy: dict[str, tuple[Rule, ...]]
    node: NodeAuthorizer

    def decide(self, user: User, request: RequestInfo) -> Decision:
        if MASTERS in user.groups or any(rule.allows(request) for rule in self.rules_of(user)):
            return Decision(True)
        return self.node(user, request)

    def rules_of(self, user: User) -> Sequence[Rule]:
        rules = list(self.policy.get(user.name, ()))
        for group in user.groups:
            rules += self.policy.get(f"group:{group}", ())
        return rules

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
