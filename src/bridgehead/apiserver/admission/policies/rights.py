"""Rights that a user needs to write policies with parameters: who may not read an object may not evaluate it.

Source: Kubernetes `pkg/registry/admissionregistration/validatingadmissionpolicy/authz.go` and those of the other kinds.
"""

from __future__ import annotations

import msgspec

from bridgehead.apiserver.admission.attributes import Attributes
from bridgehead.apiserver.admission.plugin_dependencies import PluginDependencies
from bridgehead.apiserver.errors import ApiStatus, invalid
from bridgehead.apiserver.field import Field, FieldError
from bridgehead.apiserver.http.request_info import RequestInfo
from bridgehead.apiserver.http.user import User
from bridgehead.apiserver.resource import JsonObject
from bridgehead.storage import Key

from .parameters import NotConfigured, find_param_resource

_MASTERS = "system:masters"


def check_param_kind(parts: PluginDependencies, attributes: Attributes, policy: JsonObject, old: JsonObject) -> None:
    """Raise a 422 unless the writer of a policy may read all objects of its `paramKind`."""
    kind = policy["spec"].get("paramKind")
    if kind is None or kind == old.get("spec", {}).get("paramKind") or _MASTERS in attributes.user.groups:
        return
    if not _may(parts, attributes.user, "get", kind, "*", "*"):
        who = f"user {_shown(attributes.user)} must have"
        which = f"paramKind (kind={kind['kind']}, apiVersion={kind['apiVersion']})"
        problem = f'{who} "get" permission on all objects of the referenced {which}'
        raise _refusal(attributes, policy, Field(None, "spec.paramKind").forbidden(problem))


def check_param_ref(
    parts: PluginDependencies, policies: str, attributes: Attributes, binding: JsonObject, old: JsonObject
) -> None:
    """Raise a 422 unless the writer of a binding may read the objects of its `paramRef`.

    `policies` is the id of the resource of the bound policy.
    """
    spec, before = binding["spec"], old.get("spec", {})
    ref, name = spec.get("paramRef"), spec["policyName"]
    is_same = ref == before.get("paramRef") and name == before.get("policyName")
    if ref is None or is_same or _MASTERS in attributes.user.groups:
        return
    record = parts.store.get(Key(policies, "", name))
    kind = None if record is None else msgspec.json.decode(record.value)["spec"].get("paramKind")
    verb = "get" if ref.get("name") else "list"
    if not _may(parts, attributes.user, verb, kind, ref.get("namespace", ""), ref.get("name", "")):
        # Kubernetes' text has the user and the verb in this order.
        problem = (
            f'user {verb} does not have "{_shown(attributes.user)}" permission on the object referenced by paramRef'
        )
        raise _refusal(attributes, binding, Field(None, "spec.paramRef").forbidden(problem))


def _may(parts: PluginDependencies, user: User, verb: str, kind: JsonObject | None, namespace: str, name: str) -> bool:
    """Whether a user may read parameters. Unknown parts are "*"."""
    group = version = plural = "*"
    if kind is not None:
        group, _, version = kind["apiVersion"].rpartition("/")
        try:
            resource = find_param_resource(kind, parts.table)
            plural = "*" if resource is None else resource.plural
        except NotConfigured:
            pass
    info = RequestInfo(
        "", verb, is_resource=True, group=group, version=version, namespace=namespace, resource=plural, name=name
    )
    return parts.authorizer.decide(user, info).allowed


def _shown(user: User) -> str:
    """Return a user as Go prints it."""
    extra = " ".join(f"{key}:[{' '.join(values)}]" for key, values in sorted(user.extra.items()))
    return f"&{{{user.name} {user.uid} [{' '.join(user.groups)}] map[{extra}]}}"


def _refusal(attributes: Attributes, obj: JsonObject, error: FieldError) -> ApiStatus:
    resource = attributes.resource
    return invalid(resource.group, resource.kind, obj["metadata"].get("name", ""), [error])
