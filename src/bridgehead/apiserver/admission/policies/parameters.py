"""The objects that a binding names as the parameters of its policy.

Source: apiserver/pkg/admission/plugin/policy/generic/policy_dispatcher.go.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from bridgehead.apiserver.admission.matching import parse_selector
from bridgehead.apiserver.resource import JsonObject, Resource
from bridgehead.apiserver.table import ResourceTable
from bridgehead.storage import Key, Record, Store

from .policy_objects import Binding


class NotConfigured(Exception):
    """A policy or a binding that can't be used. The text is Kubernetes'."""


def find_param_resource(kind: JsonObject | None, table: ResourceTable) -> Resource | None:
    """Return the resource of a policy's `paramKind`; None without one. Raises NotConfigured."""
    if kind is None:
        return None
    for resource in table:
        if (resource.api_version, resource.kind) == (kind["apiVersion"], kind["kind"]):
            return resource
    shown = f"{kind['apiVersion']}, Kind={kind['kind']}"
    raise NotConfigured(f"failed to find resource referenced by paramKind: '{shown}'")


async def collect_params(
    resource: Resource | None, binding: Binding, namespace: str, store: Store
) -> Sequence[JsonObject | None]:
    """Return the parameters with which a policy is evaluated, one after the other; None: it is evaluated without.

    Raises NotConfigured, and `ApiStatus` when a conversion fails.
    """
    ref = binding.param_ref
    if resource is None or ref is None:
        return (None,)
    where = ref.get("namespace", "")
    if where and not resource.namespaced:
        raise NotConfigured("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
    if resource.namespaced:
        where = where or namespace
        if not where:
            raise NotConfigured(
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
            )
    records = _find(resource, ref, where, store)
    if not records and ref.get("parameterNotFoundAction") == "Deny":
        raise NotConfigured("no params found for policy binding with `Deny` parameterNotFoundAction")
    return [await _served(resource, record) for record in records]


def _find(resource: Resource, ref: JsonObject, namespace: str, store: Store) -> list[Record]:
    kept = resource.stored.id
    if name := ref.get("name"):
        record = store.get(Key(kept, namespace, name))
        return [] if record is None else [record]
    try:
        selector = parse_selector(ref.get("selector"))
    except ValueError as error:
        raise NotConfigured(str(error)) from None
    return [
        record
        for record in store.list(kept)
        if (not namespace or record.key.namespace == namespace) and selector.matches(record.facts.labels)
    ]


async def _served(resource: Resource, record: Record) -> JsonObject:
    obj: JsonObject = msgspec.json.decode(record.value)
    if resource.converter is not None:
        return await resource.converter.converted(obj, resource)
    return obj if resource.stored_form is None else resource.stored_form.from_stored(obj)
