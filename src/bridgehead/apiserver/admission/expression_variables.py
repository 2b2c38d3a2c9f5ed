"""The variables that expressions about a request can use.

Pure: no I/O, no clock, no randomness.
Source: apiserver/pkg/admission/plugin/cel/activation.go, condition.go; admission/v1, AdmissionRequest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bridgehead.apiserver.access.rbac.rbac_authorizer import Decision
from bridgehead.apiserver.cel.library.authorization import AccessQuery, Authorizer, ResourceCheck
from bridgehead.apiserver.cel.library.authorization import Decision as CheckResult
from bridgehead.apiserver.http.request_info import RequestInfo
from bridgehead.apiserver.http.user import AUTHENTICATED, User
from bridgehead.apiserver.resource import JsonObject, Resource

from .attributes import CONNECT, Attributes

# Returns whether a user may make a request (`access.authorization`).
Decide = Callable[[User, RequestInfo], Decision]

_OPTIONS = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}
# The fields of a Namespace that expressions see.
_NAMESPACE_META = (
    "name", "generateName", "labels", "annotations", "creationTimestamp", "deletionGracePeriodSeconds",
    "deletionTimestamp", "generation", "resourceVersion", "finalizers",
)  # fmt: skip


def request_variables(
    attributes: Attributes, resource: Resource, obj: JsonObject, old: JsonObject, decide: Decide
) -> dict[str, Any]:
    """Return the variables of a request as one for `resource`: all but `params` and `variables`.

    `namespaceObject` is None; the caller sets it where expressions can use it. Decisions are remembered.
    """
    user, known = attributes.user, dict[AccessQuery, CheckResult]()

    def check(query: AccessQuery) -> CheckResult:
        found = known.get(query)
        if found is None:
            decision = decide(_user_of(query, user), _info(query))
            found = known[query] = CheckResult(decision.allowed, decision.reason)
        return found

    own = AccessQuery(
        group=attributes.resource.group,
        resource=attributes.resource.plural,
        subresource=attributes.subresource,
        namespace=attributes.namespace if attributes.resource.namespaced else "",
        name=attributes.name,
    )
    return {
        "object": obj or None,
        "oldObject": old or None,
        "namespaceObject": None,
        "request": describe_request(attributes, resource),
        "authorizer": Authorizer(check),
        "authorizer.requestResource": ResourceCheck(check, own),
    }


def _user_of(query: AccessQuery, user: User) -> User:
    if query.service_account is None:
        return user
    namespace, name = query.service_account
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED)
    return User(f"system:serviceaccount:{namespace}:{name}", groups)


def _info(query: AccessQuery) -> RequestInfo:
    if query.path:
        return RequestInfo(query.path, query.verb)
    return RequestInfo(
        "",
        query.verb,
        is_resource=True,
        group=query.group,
        version="*",
        namespace=query.namespace,
        resource=query.resource,
        name=query.name,
        subresource=query.subresource,
        label_selector=query.label_selector,
        field_selector=query.field_selector,
    )


def describe_request(attributes: Attributes, resource: Resource) -> JsonObject:
    """Return a request as one for `resource`: an AdmissionRequest without `uid`, `object` and `oldObject`."""
    kind = attributes.kind or (resource.group, resource.version, resource.kind)
    request: JsonObject = {
        "kind": _kind(kind),
        "resource": _resource(resource),
        "requestKind": _kind(attributes.object_kind),
        "requestResource": _resource(attributes.resource),
        "name": attributes.name,
        "namespace": attributes.namespace,
        "operation": attributes.operation,
        "userInfo": _user(attributes.user),
        "dryRun": attributes.dry_run,
        "subResource": attributes.subresource,
        "requestSubResource": attributes.subresource,
    }
    if attributes.operation != CONNECT:
        options = {"kind": _OPTIONS[attributes.operation], "apiVersion": "meta.k8s.io/v1", **attributes.options}
        request["options"] = options
    return request


def _kind(kind: tuple[str, str, str]) -> JsonObject:
    return {"group": kind[0], "version": kind[1], "kind": kind[2]}


def _resource(resource: Resource) -> JsonObject:
    return {"group": resource.group, "version": resource.version, "resource": resource.plural}


def _user(user: User) -> JsonObject:
    info: JsonObject = {"username": user.name, "uid": user.uid, "groups": list(user.groups)}
    return {**info, "extra": {key: list(values) for key, values in user.extra.items()}}


def describe_namespace(namespace: JsonObject) -> JsonObject:
    """Return a Namespace with the fields that expressions see."""
    metadata = namespace["metadata"]
    shown = {name: metadata[name] for name in _NAMESPACE_META if name in metadata}
    return {"metadata": shown, "spec": namespace.get("spec", {}), "status": namespace.get("status", {})}
