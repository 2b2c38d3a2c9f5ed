"""Validating webhooks: all those of a request are asked at once.

Source: apiserver/pkg/admission/plugin/webhook/validating/dispatcher.go.
"""

from __future__ import annotations

import asyncio

from bridgehead.apiserver.admission.attributes import Attributes
from bridgehead.apiserver.admission.equivalent_forms import Forms
from bridgehead.apiserver.errors import ApiStatus
from bridgehead.apiserver.metrics.waits import recorded_wait
from bridgehead.apiserver.resource import JsonObject

from .calls import Call, Caller
from .webhook_sources import Candidate, HookSource


class ValidatingDispatcher:
    """Asks the webhooks of the configurations of the resource `configurations`."""

    def __init__(self, caller: Caller, configurations: str) -> None:
        self._caller = caller
        self._source = HookSource(caller.parts.store, configurations, caller.parts.table)

    def handles(self, attributes: Attributes) -> bool:
        """Whether a webhook has a rule for the request."""
        return bool(self._source.candidates(attributes))

    async def validate(self, attributes: Attributes, obj: JsonObject, old: JsonObject) -> None:
        """Raise `ApiStatus` for a request that a webhook refuses."""
        forms = Forms(attributes)
        asked: list[tuple[Candidate, tuple[JsonObject, JsonObject]]] = []
        for candidate in self._source.candidates(attributes):
            shown = await self._caller.shown(candidate, attributes, forms, obj, old)
            if shown is not None:
                asked.append((candidate, shown))
        calls = (self._ask(candidate, n, attributes, *shown) for n, (candidate, shown) in enumerate(asked))
        with recorded_wait():
            refusals = await asyncio.gather(*calls)
        for refusal in refusals:
            if refusal is not None:
                raise refusal

    async def _ask(
        self, candidate: Candidate, index: int, attributes: Attributes, obj: JsonObject, old: JsonObject
    ) -> ApiStatus | None:
        """Call one webhook; return the refusal of the request, if it follows from the call."""
        hook = candidate.hook
        with Call(self._caller, hook, attributes, is_mutating=False) as call:
            answer = await self._caller.ask(candidate, attributes, obj, old, is_mutating=False)
            if not answer.allowed:
                call.deny(answer)
        if call.failed_open:
            attributes.annotations[f"failed-open.validating.webhook.admission.k8s.io/round_0_index_{index}"] = hook.name
        return call.refusal
