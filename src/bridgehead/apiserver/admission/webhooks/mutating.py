"""Mutating webhooks: they are asked one after the other, each with the changes of those before.

When a webhook changes the object, all plug-ins run a second time, and with them the webhooks with reinvocationPolicy
IfNeeded that were asked before the change.
Source: apiserver/pkg/admission/plugin/webhook/mutating/dispatcher.go, reinvocationcontext.go.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any

import msgspec

from bridgehead.apiserver.admission.attributes import Attributes
from bridgehead.apiserver.admission.equivalent_forms import Forms
from bridgehead.apiserver.bodies.conforming import conform
from bridgehead.apiserver.bodies.json_patches import apply_json_patch
from bridgehead.apiserver.errors import PatchRefused, SchemaMismatch
from bridgehead.apiserver.go_json import check_depth
from bridgehead.apiserver.resource import JsonObject, copied

from .admission_reviews import JSON_PATCH, Answer
from .calls import Call, Caller
from .errors import WebhookFailed, internal, quoted
from .hooks import Hook
from .webhook_sources import Candidate, HookSource

log = logging.getLogger(__name__)

_KEPT = "MutatingAdmissionWebhook"
_ANNOTATION = "mutation.webhook.admission.k8s.io/"
_PATCH_ANNOTATION = "patch.webhook.admission.k8s.io/"


@dataclass(slots=True)
class _Passes:
    """State that is kept between the two passes. Webhooks are known by their index."""

    reinvocable: set[int] = field(default_factory=set)
    due: set[int] = field(default_factory=set)
    output: JsonObject | None = None

    def require(self) -> None:
        """Let all webhooks that were asked before be asked again."""
        self.due |= self.reinvocable
        self.reinvocable.clear()


class MutatingDispatcher:
    """Asks the webhooks of the configurations of the resource `configurations`."""

    def __init__(self, caller: Caller, configurations: str) -> None:
        self._caller = caller
        self._source = HookSource(caller.parts.store, configurations, caller.parts.table)
        self._shape_of = caller.parts.shape_of

    def handles(self, attributes: Attributes) -> bool:
        """Whether a webhook has a rule for the request."""
        return bool(self._source.candidates(attributes))

    async def mutate(self, attributes: Attributes, obj: JsonObject, old: JsonObject) -> JsonObject:
        """Return the object with the changes of the webhooks. Raises `ApiStatus`."""
        passes: _Passes = attributes.reinvocation.kept.setdefault(_KEPT, _Passes())
        is_second = attributes.reinvocation.is_second
        if is_second and passes.output != obj:
            passes.require()  # the plug-ins of this server have changed the object meanwhile
        forms = Forms(attributes)
        for candidate in self._source.candidates(attributes):
            shown = await self._caller.shown(candidate, attributes, forms, obj, old)
            if shown is None or (is_second and candidate.index not in passes.due):
                continue
            changed = await self._ask(candidate, attributes, *shown)
            if changed is not None:
                obj = await forms.taken(changed, candidate.resource)
                passes.require()
                attributes.reinvocation.is_wanted = True
            if candidate.hook.is_reinvoked:
                passes.reinvocable.add(candidate.index)
        passes.output = copied(obj)
        return obj

    async def _ask(
        self, candidate: Candidate, attributes: Attributes, obj: JsonObject, old: JsonObject
    ) -> JsonObject | None:
        """Call one webhook; return the object as the webhook changed it, None if it did not. Raises `ApiStatus`."""
        hook, changed = candidate.hook, None
        position = f"round_{int(attributes.reinvocation.is_second)}_index_{candidate.index}"
        with Call(self._caller, hook, attributes, is_mutating=True) as call:
            answer = await self._caller.ask(candidate, attributes, obj, old, is_mutating=True)
            if not answer.allowed:
                call.deny(answer)
            elif (operations := _operations(hook, answer)) is not None:
                new = self._patched(candidate, attributes, obj, operations)
                changed = new if new != obj else None
                attributes.annotations[_PATCH_ANNOTATION + position] = _described(
                    hook, patch=operations, patchType=JSON_PATCH
                )
        attributes.annotations[_ANNOTATION + position] = _described(hook, mutated=changed is not None)
        if call.failed_open:
            attributes.annotations[f"failed-open.{_ANNOTATION}{position}"] = hook.name
        if call.refusal is not None:
            raise call.refusal
        return changed

    def _patched(self, candidate: Candidate, attributes: Attributes, obj: JsonObject, operations: Any) -> JsonObject:
        """Return the object with a webhook's patch and with default values. Raises a 500 for a patch that can't be."""
        if not obj:
            name = quoted(candidate.hook.name)
            raise internal(
                f"admission webhook {name} attempted to modify the object, which is not supported for this operation"
            )
        resource = candidate.resource
        kind = attributes.kind or (resource.group, resource.version, resource.kind)
        try:
            patched = apply_json_patch(obj, operations)
            if not isinstance(patched, dict):
                raise internal("the patch replaces the object by a value that is not an object")
            if (patched.get("apiVersion"), patched.get("kind")) != (obj.get("apiVersion"), obj.get("kind")):
                raise internal("the patch changes the kind of the object")
            new, _ = conform(patched, self._shape_of(resource, kind))
        except (PatchRefused, SchemaMismatch, RecursionError) as error:
            raise internal(str(error)) from None
        if attributes.kind is None and resource.stored_form is None:
            resource.strategy.default(new)
        return new


def _operations(hook: Hook, answer: Answer) -> Any:
    """Return the operations of an answer's patch, None without any. Raises `WebhookFailed`."""
    if not answer.patch:
        return None
    try:
        check_depth(answer.patch)
        operations = msgspec.json.decode(answer.patch)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise WebhookFailed(hook.name, f"received undecodable patch in webhook response: {error}", 503) from None
    if operations is not None and not isinstance(operations, list):
        why = "received undecodable patch in webhook response: json: cannot unmarshal object into a list of operations"
        raise WebhookFailed(hook.name, why, 503)
    if not operations:
        return None
    if answer.patch_type != JSON_PATCH:
        raise WebhookFailed(hook.name, f"unsupported patch type {quoted(answer.patch_type or '')}", 503)
    return operations


def _described(hook: Hook, **more: Any) -> str:
    """Return the value of an audit annotation."""
    return msgspec.json.encode({"configuration": hook.configuration, "webhook": hook.name, **more}).decode()
