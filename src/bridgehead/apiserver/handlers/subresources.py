"""The subresources that are not views of the object: scale, binding, eviction, token, finalize.

Source: Kubernetes API reference; pkg/registry/core/pod/storage, pkg/registry/apps/*/storage.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec
from msgspec.structs import replace

from bridgehead.apiserver.access.service_account_tokens import TokenAuthority
from bridgehead.apiserver.admission.attributes import CREATE
from bridgehead.apiserver.bodies.apply_requests import parse_configuration
from bridgehead.apiserver.bodies.decoding import decode_kind, decode_object
from bridgehead.apiserver.bodies.patch import APPLY_PATCH
from bridgehead.apiserver.bodies.patch_requests import patch_change, patch_type
from bridgehead.apiserver.bodies.schema import Schema
from bridgehead.apiserver.errors import (
    ApiStatus,
    bad_request,
    created,
    failed_precondition,
    internal_error,
    invalid,
)
from bridgehead.apiserver.field import Field
from bridgehead.apiserver.fieldmanagement.applying import Applied
from bridgehead.apiserver.fieldmanagement.managers import APPLY, Entries, Writer
from bridgehead.apiserver.http.request import Request, Response, respond
from bridgehead.apiserver.registry.registry import Registry
from bridgehead.apiserver.registry.request_checks import check_url, with_same_uid
from bridgehead.apiserver.registry.write import Write
from bridgehead.apiserver.registry.write_steps import BINDING
from bridgehead.apiserver.resource import Change, JsonObject, Resource
from bridgehead.objects.times import format_time
from bridgehead.storage import Record

from .apply import Applier
from .evictions import Evictions
from .scale_views import scale_view, spec_path
from .token_requests import TokenRequests
from .write_options import is_dry_run, parse_writer
from .writes import attributes_of, update_of


class Subresources:
    """Handlers of subresources. `schema` has the shapes of bodies of other kinds, such as Scale."""

    def __init__(self, registry: Registry, tokens: TokenAuthority, applier: Applier, schema: Schema) -> None:
        self._registry = registry
        self._applier = applier
        self._scale = schema.of_kind("autoscaling", "v1", "Scale")
        self._binding = schema.of_kind("", "v1", "Binding")
        self._eviction = schema.of_kind("policy", "v1", "Eviction")
        self._evictions = Evictions(registry)
        self.create_token = TokenRequests(registry, tokens, schema, self._admit).create

    async def get_scale(self, request: Request, resource: Resource) -> Response:
        record = self._registry.get(resource, request.info.namespace, request.info.name)
        scale = await self._shown_scale(resource, record)
        if "replicas" not in scale["spec"]:
            raise internal_error(f"the spec replicas field {json.dumps(spec_path(resource))} does not exist")
        return respond(scale)

    async def _shown_scale(self, resource: Resource, record: Record) -> JsonObject:
        record = await self._registry.served(resource, record)
        return scale_view(resource).show(msgspec.json.decode(record.value))

    async def update_scale(self, request: Request, resource: Resource) -> Response:
        writer = parse_writer(request)
        wanted = await decode_kind(request, "autoscaling", "v1", "Scale", self._scale)
        write = _scale_write(request, resource, writer)
        check_url(write, wanted.setdefault("metadata", {}))
        return await self._change_scale(write, lambda _: wanted)

    async def patch_scale(self, request: Request, resource: Resource) -> Response:
        if patch_type(request) == APPLY_PATCH:
            return await self._apply_scale(request, resource)
        writer = parse_writer(request)
        change = await patch_change(request, await request.body(), "Scale", self._scale)
        return await self._change_scale(_scale_write(request, resource, writer), with_same_uid("Scale", change))

    async def _change_scale(self, write: Write, change_scale: Change) -> Response:
        """Change an object as `change_scale` changes its Scale."""
        resource, view = write.resource, scale_view(write.resource)

        def change(old: JsonObject) -> JsonObject:
            shown = view.show(old)
            scale = change_scale(shown)
            if "replicas" not in shown["spec"] and "replicas" not in scale.get("spec", {}):
                raise bad_request(f"the spec replicas field {json.dumps(spec_path(resource))} cannot be empty")
            _check_replicas(write.name, scale.get("spec", {}).get("replicas", 0))
            return {**view.write_back(old, scale), "metadata": _expecting(scale, old)}

        record = await self._registry.update(write, change)
        return respond(await self._shown_scale(resource, record))

    async def _apply_scale(self, request: Request, resource: Resource) -> Response:
        writer = parse_writer(request, operation=APPLY)
        configuration = await parse_configuration(request, "autoscaling/v1", "Scale")
        merge = self._applier.scale_merge_of(resource, configuration, writer)

        def checked(live: JsonObject, managers: Entries) -> Applied:
            result = merge(live, managers)
            scale = scale_view(resource).show(result.obj)
            _check_replicas(request.info.name, scale["spec"].get("replicas", 0))
            return result

        record = await self._registry.apply(_scale_write(request, resource, writer), checked)
        return respond(await self._shown_scale(resource, record))

    async def _admit(
        self, request: Request, resource: Resource, obj: JsonObject, kind: tuple[str, str, str]
    ) -> JsonObject:
        """Let admission check and change the object of a create that is not stored, such as a Binding."""
        info, (group, version, name) = request.info, kind
        metadata = {"name": info.name, "namespace": info.namespace} | obj.get("metadata", {})
        obj = {**obj, "kind": name, "apiVersion": f"{group}/{version}" if group else version, "metadata": metadata}
        return await self._registry.admission.admit(attributes_of(request, resource, CREATE, kind=kind), obj, {})

    async def bind(self, request: Request, resource: Resource) -> Response:
        """Assign a pod to a node. The pod is that of the path, or, for a path without one, that of the Binding."""
        binding = await decode_kind(request, "", "v1", "Binding", self._binding)
        info, name = request.info, binding.get("metadata", {}).get("name", "")
        if not info.name:
            info = request.info = replace(info, resource=resource.plural, name=name, subresource=BINDING)
        if name != info.name:
            raise bad_request("name in URL does not match name in Binding object")
        binding = await self._admit(request, resource, binding, ("", "v1", "Binding"))
        target = Field(binding.get("target"), "target")
        if target.get("kind") not in (None, "", "Node"):
            raise invalid("", "Binding", info.name, [target.at("kind").not_supported(("Node", "<empty>"))])
        if not target.at("name").must_be_set():
            raise invalid("", "Binding", info.name, target.errors)
        wanted_uid = binding.get("metadata", {}).get("uid")

        def change(pod: JsonObject) -> JsonObject:
            meta, spec = pod["metadata"], pod.get("spec", {})
            if wanted_uid and wanted_uid != meta["uid"]:
                raise failed_precondition(resource, info.namespace, info.name, wanted_uid, meta["uid"])
            if "deletionTimestamp" in meta:
                raise _not_bound(info.name, "is being deleted, cannot be assigned to a host")
            if spec.get("nodeName"):
                raise _not_bound(info.name, f'is already assigned to node "{spec["nodeName"]}"')
            if spec.get("schedulingGates"):
                raise _not_bound(info.name, "has non-empty .spec.schedulingGates")
            return bind(pod, binding, self._registry.clock())

        # Fields that a binding sets have no manager, as in Kubernetes.
        write = Write(resource, info.namespace, info.name, BINDING, writer=None, dry_run=is_dry_run(request))
        await self._registry.update(write, change)
        return respond(created(), 201)

    async def evict(self, request: Request, resource: Resource) -> Response:
        eviction = await decode_kind(request, "policy", "v1", "Eviction", self._eviction, older_version="v1beta1")
        eviction = await self._admit(request, resource, eviction, ("policy", "v1", "Eviction"))
        return await self._evictions.evict(request, resource, eviction)

    async def finalize(self, request: Request, resource: Resource) -> Response:
        writer = parse_writer(request)
        wanted = await decode_object(request, resource, self._registry.shape(resource))
        write = update_of(request, resource, writer)
        check_url(write, wanted.setdefault("metadata", {}))
        finalizers: list[Any] = wanted.get("spec", {}).get("finalizers", [])

        def change(old: JsonObject) -> JsonObject:
            spec = {key: value for key, value in old.get("spec", {}).items() if key != "finalizers"}
            if finalizers:
                spec["finalizers"] = finalizers
            return {**old, "metadata": _expecting(wanted, old), "spec": spec}

        record: Record = await self._registry.update(write, change)
        return Response(200, record.value)


def _scale_write(request: Request, resource: Resource, writer: Writer) -> Write:
    return update_of(request, resource, writer, view=scale_view(resource), kind=_SCALE)


def _check_replicas(name: str, replicas: int) -> None:
    """Raise a 422 for a negative number of replicas."""
    field = Field(replicas, "spec.replicas")
    if not field.must_not_be_negative():
        raise invalid("autoscaling", "Scale", name, field.errors)


def _expecting(wanted: JsonObject, old: JsonObject) -> JsonObject:
    """Return the metadata of `old`, with the resourceVersion that the client expects if it sent one."""
    expected = wanted.get("metadata", {}).get("resourceVersion")
    return {**old["metadata"], "resourceVersion": expected} if expected else {**old["metadata"]}


def _not_bound(pod: str, why: str) -> ApiStatus:
    message = f'Operation cannot be fulfilled on pods/binding "{pod}": pod {pod} {why}'
    return ApiStatus(409, "Conflict", message, {"name": pod, "kind": "pods/binding"})


def bind(pod: JsonObject, binding: JsonObject, now: float) -> JsonObject:
    """Return the pod assigned to the node of `binding`, whose labels and annotations it gets. A nomination ends."""
    status = {key: value for key, value in pod.get("status", {}).items() if key != "nominatedNodeName"}
    conditions = [c for c in status.get("conditions", ()) if c.get("type") != "PodScheduled"]
    scheduled: JsonObject = {"type": "PodScheduled", "status": "True", "lastTransitionTime": format_time(now)}
    if generation := pod["metadata"].get("generation"):
        scheduled["observedGeneration"] = generation
    metadata, given = {**pod["metadata"]}, binding.get("metadata", {})
    for name in ("labels", "annotations"):
        if given.get(name):
            metadata[name] = {**metadata.get(name, {}), **given[name]}
    return {
        **pod,
        "metadata": metadata,
        "spec": {**pod.get("spec", {}), "nodeName": binding["target"]["name"]},
        "status": {**status, "conditions": [*conditions, scheduled]},
    }


_SCALE = ("autoscaling", "v1", "Scale")
