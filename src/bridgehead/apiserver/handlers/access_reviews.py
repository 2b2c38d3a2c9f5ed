"""Access reviews, token reviews and self reviews (`kubectl auth whoami`, `can-i`, `can-i --list`).

A review is a POST of an object whose answer is the object with a status; it is not stored.
Source: authentication.k8s.io/v1, authorization.k8s.io/v1.
"""

from __future__ import annotations

from collections.abc import Sequence

from bridgehead.apiserver.access.authentication import Authenticator
from bridgehead.apiserver.access.authorization import Authorizer
from bridgehead.apiserver.access.node_authorizer import node_name_of
from bridgehead.apiserver.access.rbac.rbac_authorizer import join_errors
from bridgehead.apiserver.bodies.decoding import decode_kind
from bridgehead.apiserver.bodies.schema import Schema
from bridgehead.apiserver.errors import bad_request, invalid, method_not_allowed
from bridgehead.apiserver.field import Field
from bridgehead.apiserver.http.request import Request, Response, respond
from bridgehead.apiserver.http.request_info import RequestInfo
from bridgehead.apiserver.http.user import CredentialNotes, InvalidCredentials, User
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.rbac import Rule
from bridgehead.apiserver.shapes import Shape

from .discovery import REVIEWS

_KINDS = {(group, plural): kind for group, _, plural, kind, _ in REVIEWS}


class Reviews:
    def __init__(self, authorizer: Authorizer, authenticator: Authenticator, schema: Schema) -> None:
        self._authorizer = authorizer
        self._authenticator = authenticator
        self._shapes: dict[str, Shape] = {
            kind: schema.of_kind(group, version, kind) for group, version, _, kind, _ in REVIEWS
        }

    def serves(self, info: RequestInfo) -> bool:
        return info.version == "v1" and (info.group, info.resource) in _KINDS

    async def handle(self, request: Request) -> Response:
        info = request.info
        if info.verb != "create" or info.name:
            raise method_not_allowed()
        kind = _KINDS[info.group, info.resource]
        review = await decode_kind(request, info.group, info.version, kind, self._shapes[kind])
        metadata = review.setdefault("metadata", {})
        if kind.startswith("Local") and metadata.setdefault("namespace", info.namespace) != info.namespace:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        if kind.endswith("SubjectAccessReview"):
            _check_access_review(kind, review)
        notes = CredentialNotes(request.annotations, request.warnings)
        review["status"] = await self._answer(kind, review.get("spec", {}), request.user, notes)
        return respond(review, 201)

    async def _answer(self, kind: str, spec: JsonObject, user: User, notes: CredentialNotes) -> JsonObject:
        match kind:
            case "SelfSubjectReview":
                return {"userInfo": _user_info(user)}
            case "SelfSubjectAccessReview":
                return self._access(user, spec)
            case "SelfSubjectRulesReview":
                return self._rules(user, spec.get("namespace", ""))
            case "TokenReview":
                return await self._token(spec.get("token", ""), spec.get("audiences", ()), notes)
        extra = {key: tuple(values) for key, values in spec.get("extra", {}).items()}
        user = User(spec.get("user", ""), tuple(spec.get("groups", ())), spec.get("uid", ""), extra)
        return self._access(user, spec)

    def _access(self, user: User, spec: JsonObject) -> JsonObject:
        if "resourceAttributes" in spec:
            wanted = spec["resourceAttributes"]
            request = RequestInfo(
                path="",
                verb=wanted.get("verb", ""),
                is_resource=True,
                group=wanted.get("group", ""),
                version=wanted.get("version", ""),
                namespace=wanted.get("namespace", ""),
                resource=wanted.get("resource", ""),
                name=wanted.get("name", ""),
                subresource=wanted.get("subresource", ""),
                label_selector=_selector(wanted.get("labelSelector", {})),
                field_selector=_selector(wanted.get("fieldSelector", {})),
            )
        else:
            wanted = spec.get("nonResourceAttributes", {})
            request = RequestInfo(path=wanted.get("path", ""), verb=wanted.get("verb", ""))
        decision = self._authorizer.decide(user, request)
        return {"allowed": decision.allowed} | ({"reason": decision.reason} if decision.reason else {})

    def _rules(self, user: User, namespace: str) -> JsonObject:
        if not namespace:
            raise bad_request("no namespace on request")
        rules, errors = self._authorizer.rules_of(user, namespace)
        is_node = node_name_of(user) is not None
        if is_node:
            errors = ["node authorizer does not support user rule resolution", *errors]
        status: JsonObject = {
            "resourceRules": [_resource_rule(rule) for rule in rules if rule.resources],
            "nonResourceRules": [
                {"verbs": list(rule.verbs), "nonResourceURLs": list(rule.urls)} for rule in rules if rule.urls
            ],
            "incomplete": is_node,
        }
        return status | ({"evaluationError": join_errors(errors)} if errors else {})

    async def _token(self, token: str, audiences: Sequence[str], notes: CredentialNotes) -> JsonObject:
        if not token:
            raise bad_request("token is required for TokenReview in authentication")
        try:
            user, meant = await self._authenticator.verify(token, audiences, notes)
        except InvalidCredentials as error:
            return {"user": {}, "error": str(error)}
        return {"authenticated": True, "user": _user_info(user), "audiences": list(meant)}


def _check_access_review(kind: str, review: JsonObject) -> None:
    """Raise a 422 for an invalid review. Source: Kubernetes pkg/apis/authorization/validation."""
    root = Field(review)
    spec, metadata = root.at("spec"), root.at("metadata")
    wanted, path, namespace = spec.at("resourceAttributes"), spec.at("nonResourceAttributes"), metadata.get("namespace")
    if wanted.value is not None and path.value is not None:
        path.invalid("cannot be specified in combination with resourceAttributes")
    if wanted.value is None and path.value is None:
        wanted.invalid("exactly one of nonResourceAttributes or resourceAttributes must be specified")
    if not kind.startswith("Self") and not spec.get("user") and not spec.get("groups"):
        spec.at("user", "").invalid("at least one of user or group must be specified")
    others = {key: value for key, value in metadata.value.items() if key not in ("namespace", "managedFields")}
    if others:
        why = "must be empty except for namespace" if kind.startswith("Local") else "must be empty"
        metadata.showing(others).invalid(why)
    if kind.startswith("Local"):
        if wanted.value is not None and wanted.get("namespace", "") != namespace:
            wanted.at("namespace", "").invalid("must match metadata.namespace")
        if path.value is not None:
            path.invalid("disallowed on this kind of request")
    for key in ("labelSelector", "fieldSelector"):
        wanted.at(key).must_obey(_validate_selector)
    if root.errors:
        # Kubernetes asks the decoded review for its kind, which it does not have then.
        raise invalid("authorization.k8s.io", "", "", root.errors)


def _validate_selector(selector: Field) -> None:
    raw, requirements = selector.at("rawSelector"), selector.at("requirements")
    if raw and requirements:
        raw.invalid("may not specified at the same time as requirements")
    if not raw and not requirements:
        requirements.required(f"when {selector.path} is specified, requirements or rawSelector is required")


def _selector(attributes: JsonObject) -> str:
    """Render a selector as in a query.

    Requirements with several values are left out: the review then asks for a wider request, never for a narrower one.
    """
    if "rawSelector" in attributes:
        return str(attributes["rawSelector"])
    terms = (
        f"{one.get('key', '')}{'=' if one.get('operator') == 'In' else '!='}{one['values'][0]}"
        for one in attributes.get("requirements", ())
        if one.get("operator") in ("In", "NotIn") and len(one.get("values", ())) == 1
    )
    return ",".join(terms)


def _resource_rule(rule: Rule) -> JsonObject:
    entry: JsonObject = {
        "verbs": list(rule.verbs),
        "apiGroups": list(rule.groups),
        "resources": list(rule.resources),
    }
    if rule.names:
        entry["resourceNames"] = list(rule.names)
    return entry


def _user_info(user: User) -> JsonObject:
    info: JsonObject = {"username": user.name}
    if user.uid:
        info["uid"] = user.uid
    groups = list(user.groups)
    if groups:
        info["groups"] = groups
    if user.extra:
        info["extra"] = {key: list(values) for key, values in user.extra.items()}
    return info
