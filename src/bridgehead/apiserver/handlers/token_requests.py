"""The subresource `token` of service accounts (`kubectl create token`).

Source: Kubernetes pkg/registry/core/serviceaccount/storage/token.go, pkg/apis/authentication/validation.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable

import msgspec

from bridgehead.apiserver.access.service_account_tokens import TokenAuthority
from bridgehead.apiserver.access.token_claims import Bound, Reference
from bridgehead.apiserver.bodies.decoding import decode_kind
from bridgehead.apiserver.bodies.nulls import nulls_of_kind, write_nulls
from bridgehead.apiserver.bodies.schema import Schema
from bridgehead.apiserver.bodies.serialization import stored_metadata
from bridgehead.apiserver.errors import ApiStatus, bad_request, invalid, not_found_path
from bridgehead.apiserver.field import Field
from bridgehead.apiserver.http.request import Request, Response, respond
from bridgehead.apiserver.registry.registry import Registry
from bridgehead.apiserver.resource import JsonObject, Resource
from bridgehead.objects.times import format_time

_KIND = ("authentication.k8s.io", "v1", "TokenRequest")
_MIN_SECONDS, _DEFAULT_SECONDS, _MAX_SECONDS = 600, 3600, 2**32
_ISSUED = "authentication.kubernetes.io/issued-credential-id"
_BOUND_KINDS = {"Pod": "pods", "Node": "nodes", "Secret": "secrets"}

# Lets admission check and change an object that is not stored.
Admit = Callable[[Request, Resource, JsonObject, tuple[str, str, str]], Awaitable[JsonObject]]


class TokenRequests:
    """Issues tokens. `admit` is called before."""

    def __init__(self, registry: Registry, tokens: TokenAuthority, schema: Schema, admit: Admit) -> None:
        self._registry = registry
        self._tokens = tokens
        self._shape = schema.of_kind(*_KIND)
        self._admit = admit

    async def create(self, request: Request, accounts: Resource) -> Response:
        """Answer a POST to the subresource. Raises `ApiStatus`."""
        info = request.info
        asked = await decode_kind(request, *_KIND, self._shape)
        _check_names(asked.get("metadata", {}), info.namespace, info.name)
        uid = stored_metadata(self._registry.get(accounts, info.namespace, info.name).value).uid
        given_uid = asked.get("metadata", {}).get("uid", "")
        if given_uid and given_uid != uid:
            raise _account_uid_differs(info.name, given_uid, uid)
        spec = asked.setdefault("spec", {})
        spec["expirationSeconds"] = spec.get("expirationSeconds", _DEFAULT_SECONDS)
        asked = await self._admit(request, accounts, asked, _KIND)
        spec = asked.setdefault("spec", {})
        seconds = Field(asked).at("spec").at("expirationSeconds", 0)
        _validate_expiration(seconds)
        if seconds.errors:
            raise invalid(_KIND[0], _KIND[2], "", seconds.errors)
        bound = self._bound_to(info.namespace, info.name, spec.get("boundObjectRef"))
        now = self._registry.clock()
        spec["audiences"] = list(spec.get("audiences") or self._tokens.audiences)
        issued = self._tokens.issue(
            info.namespace,
            Reference(info.name, uid),
            bound,
            audiences=spec["audiences"],
            seconds=spec["expirationSeconds"],
        )
        names = {"name": info.name, "namespace": info.namespace, "uid": uid, "creationTimestamp": format_time(now)}
        asked["metadata"] = {**asked.get("metadata", {}), **names}
        asked["status"] = {"token": issued.token, "expirationTimestamp": format_time(issued.until)}
        write_nulls(asked, nulls_of_kind(*_KIND))
        request.annotations[_ISSUED] = issued.credential_id
        return respond(asked, 201)

    def _bound_to(self, namespace: str, account: str, reference: JsonObject | None) -> Bound:
        """Return the objects that the token is bound to. Raises a 400, 404 or 409."""
        if not reference:
            return Bound()
        api_version, kind, name = (reference.get(key, "") for key in ("apiVersion", "kind", "name"))
        if "/" in api_version or kind not in _BOUND_KINDS:
            group, _, version = api_version.rpartition("/")
            shown = f"{group}/{version}, Kind={kind}"
            raise bad_request(f"cannot bind token to object of type {shown}")
        obj = self._read(_BOUND_KINDS[kind], "" if kind == "Node" else namespace, name)
        uid = obj["metadata"]["uid"]
        if kind == "Pod" and obj.get("spec", {}).get("serviceAccountName", "") != account:
            shown = json.dumps(account)
            raise bad_request(
                f"cannot bind token for serviceaccount {shown} to pod running with different serviceaccount name."
            )
        if reference.get("uid") and reference["uid"] != uid:
            raise _uid_differs(kind, name, reference["uid"])
        bound = Reference(name, uid)
        match kind:
            case "Secret":
                return Bound(secret=bound)
            case "Node":
                return Bound(node=bound)
        return Bound(pod=bound, node=self._node_of(obj.get("spec", {}).get("nodeName", "")))

    def _read(self, plural: str, namespace: str, name: str) -> JsonObject:
        resource = self._registry.find("", "v1", plural)
        if resource is None:
            raise not_found_path()
        obj: JsonObject = msgspec.json.decode(self._registry.get(resource, namespace, name).value)
        return obj

    def _node_of(self, name: str) -> Reference | None:
        """Return a pod's node, without uid if there is no such Node object."""
        nodes = self._registry.find("", "v1", "nodes")
        if not name or nodes is None:
            return None
        record = self._registry.store.get(self._registry.key(nodes, "", name))
        return Reference(name, "" if record is None else stored_metadata(record.value).uid)


def _validate_expiration(seconds: Field) -> None:
    seconds.must_be_at_least(_MIN_SECONDS, "may not specify a duration less than 10 minutes")
    seconds.must_be_at_most(_MAX_SECONDS, "may not specify a duration larger than 2^32 seconds")


def _check_names(metadata: JsonObject, namespace: str, name: str) -> None:
    """Raise a 400 or a 422 for names that are not those of the URL."""
    if metadata.get("namespace", "") not in ("", namespace):
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    given = metadata.get("name", "")
    if given not in ("", name):
        error = Field(given, "metadata.name").invalid("must match the service account name if specified")
        raise invalid(_KIND[0], _KIND[2], name, [error])


def _account_uid_differs(name: str, given: str, uid: str) -> ApiStatus:
    """The account of the request was deleted, and another one has its name."""
    group, _, kind = _KIND
    why = f"the UID in the token request ({given}) does not match the UID of the service account ({uid})"
    message = f'Operation cannot be fulfilled on {kind}.{group} "{name}": {why}'
    return ApiStatus(409, "Conflict", message, {"name": name, "group": group, "kind": kind})


def _uid_differs(kind: str, name: str, uid: str) -> ApiStatus:
    why = (
        f"the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been "
        "deleted and then recreated"
    )
    message = f'Operation cannot be fulfilled on {kind} "{name}": {why}'
    return ApiStatus(409, "Conflict", message, {"name": name, "kind": kind})
