"""Values of the variables of expressions in webhooks and policies.

This module imports CEL; it is imported with the first request that has an expression.
Source: apiserver/pkg/admission/plugin/cel/condition.go, apiserver/pkg/cel/library/authz.go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bridgehead.apiserver.access.authorization import Authorizer
from bridgehead.apiserver.cel.library.authorization import AccessQuery, Decision, ResourceCheck
from bridgehead.apiserver.cel.library.authorization import Authorizer as AuthorizerValue
from bridgehead.apiserver.http.paths import RequestInfo
from bridgehead.apiserver.http.user import AUTHENTICATED, User
from bridgehead.apiserver.resource import JsonObject

from .attributes import Attributes

_ACCOUNTS = "system:serviceaccounts"


def variables(
    authorizer: Authorizer, attributes: Attributes, request: JsonObject, obj: JsonObject, old: JsonObject
) -> dict[str, Any]:
    """Return the values of the variables. `request` is that of an AdmissionReview."""
    decide = _decider(authorizer, attributes.user)
    query = AccessQuery(
        group=attributes.resource.group,
        resource=attributes.resource.plural,
        subresource=attributes.subresource,
        namespace=attributes.namespace,
        name=attributes.name,
    )
    return {
        "object": obj or None,
        "oldObject": old or None,
        "request": request,
        "authorizer": AuthorizerValue(decide),
        "authorizer.requestResource": ResourceCheck(decide, query),
    }


def _decider(authorizer: Authorizer, user: User) -> Callable[[AccessQuery], Decision]:
    """Return the function that answers an expression's checks, which are about `user` if they name no other."""

    def decide(query: AccessQuery) -> Decision:
        asked = user
        if query.service_account is not None:
            namespace, name = query.service_account
            groups = (_ACCOUNTS, f"{_ACCOUNTS}:{namespace}", AUTHENTICATED)
            asked = User(f"system:serviceaccount:{namespace}:{name}", groups)
        decision = authorizer.decide(asked, _request(query))
        return Decision(decision.allowed, decision.reason)

    return decide


def _request(query: AccessQuery) -> RequestInfo:
    if query.path:
        return RequestInfo(query.path, query.verb)
    return RequestInfo(
        "",
        query.verb,
        True,
        query.group,
        "*",
        query.namespace,
        query.resource,
        query.name,
        query.subresource,
        label_selector=query.label_selector,
        field_selector=query.field_selector,
    )
