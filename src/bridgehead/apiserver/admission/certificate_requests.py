"""Admission of CertificateSigningRequests: their user, the times of their conditions, who may approve and sign.

Kubernetes sets user and times in the storage of the kind; here a plug-in does it, which knows both.
Source: Kubernetes plugin/pkg/admission/certificates, pkg/registry/certificates/certificates/strategy.go.
"""

from __future__ import annotations

from collections.abc import Callable

from bridgehead.apiserver.access.authorization import Authorizer
from bridgehead.apiserver.errors import forbidden
from bridgehead.apiserver.http.request_info import RequestInfo
from bridgehead.apiserver.http.user import User
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.certificates import (
    CERTIFICATE_SIGNING_REQUESTS,
    organizations_of,
    populate_condition_times,
)
from bridgehead.objects.times import format_time

from .attributes import CREATE, UPDATE, Attributes, shown_name
from .chain import Plugin

_CLIENT_SIGNER = "kubernetes.io/kube-apiserver-client"


class _CertificatePlugin(Plugin):
    is_static = True
    # (operation, subresource)
    handled: frozenset[tuple[str, str]] = frozenset()

    def handles(self, attributes: Attributes) -> bool:
        return (
            attributes.resource.id == CERTIFICATE_SIGNING_REQUESTS.id
            and (attributes.operation, attributes.subresource) in self.handled
        )


class CertificateRequests(_CertificatePlugin):
    """Sets the user of a new request, and the times of conditions. `clock` returns seconds since the epoch."""

    handled = frozenset({(CREATE, ""), (UPDATE, "status"), (UPDATE, "approval")})

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock

    async def mutate(self, attributes: Attributes, obj: JsonObject, old: JsonObject) -> JsonObject:
        if attributes.operation == UPDATE:
            populate_condition_times(obj, old, format_time(self._clock()))
            return obj
        kept = {key: value for key, value in obj.get("spec", {}).items() if key not in _USER_FIELDS}
        return {**obj, "spec": {**kept, **_user_fields(attributes.user)}}


_USER_FIELDS = frozenset({"username", "uid", "groups", "extra"})


def _user_fields(user: User) -> JsonObject:
    fields: JsonObject = {"username": user.name}
    if user.uid:
        fields["uid"] = user.uid
    if user.groups:
        fields["groups"] = list(user.groups)
    if user.extra:
        fields["extra"] = {key: list(values) for key, values in user.extra.items()}
    return fields


class CertificateApproval(_CertificatePlugin):
    """The plug-in CertificateApproval: who approves must have the verb `approve` for the signer."""

    handled = frozenset({(UPDATE, "approval")})

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    async def validate(self, attributes: Attributes, obj: JsonObject, old: JsonObject) -> None:
        signer = old.get("spec", {}).get("signerName", "")
        if not _may(self._authorizer, attributes.user, "approve", signer):
            why = f'user not permitted to approve requests with signerName "{signer}"'
            raise forbidden(attributes.resource, attributes.name, why)


class CertificateSigning(_CertificatePlugin):
    """The plug-in CertificateSigning: who sets certificate or conditions must have the verb `sign` for the signer."""

    handled = frozenset({(UPDATE, "status")})

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    async def validate(self, attributes: Attributes, obj: JsonObject, old: JsonObject) -> None:
        new, before = obj.get("status", {}), old.get("status", {})
        if all(new.get(key) == before.get(key) for key in ("certificate", "conditions")):
            return
        signer = old.get("spec", {}).get("signerName", "")
        if not _may(self._authorizer, attributes.user, "sign", signer):
            why = f'user not permitted to sign requests with signerName "{signer}"'
            raise forbidden(attributes.resource, attributes.name, why)


class CertificateSubjectRestriction(_CertificatePlugin):
    """The plug-in CertificateSubjectRestriction: no client certificate makes a member of system:masters."""

    handled = frozenset({(CREATE, "")})

    async def validate(self, attributes: Attributes, obj: JsonObject, old: JsonObject) -> None:
        spec = obj.get("spec", {})
        if spec.get("signerName") == _CLIENT_SIGNER and "system:masters" in organizations_of(spec["request"]):
            why = f"use of {_CLIENT_SIGNER} signer with system:masters group is not allowed"
            raise forbidden(attributes.resource, shown_name(obj), why)


def _may(authorizer: Authorizer, user: User, verb: str, signer: str) -> bool:
    """Whether a user has a right for a signer, or for all of the signer's domain."""
    names = (signer, f"{signer.partition('/')[0]}/*")
    requests = (RequestInfo("", verb, True, "certificates.k8s.io", "*", "", "signers", name) for name in names)
    return any(authorizer.decide(user, request).allowed for request in requests)
