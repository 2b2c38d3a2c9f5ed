"""Refusal of roles and bindings that give more rights than their writer has.

The writer of a role must have all rights in it, or may `escalate` the role. The writer of a binding must have all
rights of its role, or may `bind` the role. Kubernetes checks this in the storage of the four kinds; here it is a
plug-in, which sees the object that will be stored.
Source: Kubernetes pkg/registry/rbac/escalation_check.go, pkg/registry/rbac/*/policybased.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from bridgehead.apiserver.access.authorization import MASTERS, Authorizer
from bridgehead.apiserver.access.rbac.rbac_authorizer import join_errors
from bridgehead.apiserver.errors import forbidden
from bridgehead.apiserver.http.request_info import RequestInfo
from bridgehead.apiserver.http.worker import run_long
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources import rbac
from bridgehead.apiserver.resources.rbac.covering import count_permissions, describe_missing, find_missing
from bridgehead.apiserver.resources.rbac.rules import quoted

from .attributes import CREATE, UPDATE, Attributes
from .chain import Plugin

_ROLES = (rbac.ROLES.id, rbac.CLUSTER_ROLES.id)
_KINDS = frozenset((*_ROLES, rbac.ROLE_BINDINGS.id, rbac.CLUSTER_ROLE_BINDINGS.id))
_EVERYTHING = (rbac.Rule(("*",), ("*",), ("*",)), rbac.Rule(("*",), urls=("*",)))
# Metadata that the garbage collector writes without having the rights.
_COLLECTED = ("ownerReferences", "finalizers", "managedFields")


class RoleEscalation(Plugin):
    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def handles(self, attributes: Attributes) -> bool:
        return (
            attributes.resource.id in _KINDS
            and attributes.operation in (CREATE, UPDATE)
            and MASTERS not in attributes.user.groups
        )

    async def validate(self, attributes: Attributes, obj: JsonObject, old: JsonObject) -> None:
        if old and _without_collected(obj) == _without_collected(old):
            return
        if attributes.resource.id in _ROLES:
            await self._check_role(attributes, obj, old)
        else:
            await self._check_binding(attributes, obj)

    async def _check_role(self, attributes: Attributes, role: JsonObject, old: JsonObject) -> None:
        # The request for a create names no object.
        name = "" if attributes.operation == CREATE else attributes.name
        if self._may(attributes, "escalate", attributes.resource.plural, name):
            return
        await self._check_held(attributes, role, msgspec.convert(role.get("rules", ()), tuple[rbac.Rule, ...]))
        if ("aggregationRule" in role or "aggregationRule" in old) and await self._missing(attributes, _EVERYTHING):
            # Such a role may gather any rights, now or later.
            why = "must have cluster-admin privileges to use the aggregationRule"
            raise forbidden(attributes.resource, role["metadata"]["name"], why)

    async def _check_binding(self, attributes: Attributes, binding: JsonObject) -> None:
        kind, name = binding["roleRef"]["kind"], binding["roleRef"]["name"]
        if self._may(attributes, "bind", f"{kind.lower()}s", name):
            return
        rules = self._authorizer.policy.current().rules_of_role(kind, attributes.namespace, name)
        await self._check_held(attributes, binding, rules)

    def _may(self, attributes: Attributes, verb: str, plural: str, name: str) -> bool:
        request = RequestInfo("", verb, True, rbac.GROUP, "*", attributes.namespace, plural, name)
        return self._authorizer.decide(attributes.user, request).allowed

    async def _check_held(self, attributes: Attributes, obj: JsonObject, rules: Sequence[rbac.Rule]) -> None:
        """Raise a 403 if the user lacks one of the rights in `rules`."""
        missing = await self._missing(attributes, rules)
        if not missing:
            return
        user = attributes.user
        why = (
            f"user {quoted([user.name])[1:-1]} (groups={quoted(user.groups)}) is attempting to grant RBAC permissions "
            f"not currently held:\n{describe_missing(missing)}"
        )
        if errors := self._authorizer.rules_of(user, attributes.namespace).errors:
            why += f"; resolution errors: [{join_errors(errors)}]"
        raise forbidden(attributes.resource, obj["metadata"]["name"], why)

    async def _missing(self, attributes: Attributes, rules: Sequence[rbac.Rule]) -> list[rbac.Rule]:
        held = self._authorizer.rules_of(attributes.user, attributes.namespace).rules
        # The comparison of a permission with ten rules takes as long as work on a hundred bytes.
        size = 10 * count_permissions(rules) * (10 + len(held))
        return await run_long(size, lambda: find_missing(held, rules))


def _without_collected(obj: JsonObject) -> JsonObject:
    metadata = {key: value for key, value in obj["metadata"].items() if key not in _COLLECTED}
    return {**obj, "metadata": metadata}
