"""The plug-in ValidatingAdmissionWebhook: all webhooks of a request are asked at once.

Source: apiserver/pkg/admission/plugin/webhook/validating/dispatcher.go.
"""

from __future__ import annotations

import asyncio

from bridgehead.apiserver.admission.attributes import Attributes
from bridgehead.apiserver.admission.chain import Plugin
from bridgehead.apiserver.errors import ApiStatus
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.table import ResourceTable

from .calls import Call, Caller
from .forms import Forms
from .sources import Candidate, HookSource

_CONFIGURATIONS = "validatingwebhookconfigurations.admissionregistration.k8s.io"


class ValidatingWebhooks(Plugin):
    """The plug-in ValidatingAdmissionWebhook."""

    def __init__(self, caller: Caller, table: ResourceTable) -> None:
        self._caller = caller
        self._source = HookSource(caller.store, _CONFIGURATIONS, table)

    def handles(self, attributes: Attributes) -> bool:
        return bool(self._source.candidates(attributes))

    async def validate(self, attributes: Attributes, obj: JsonObject, old: JsonObject) -> None:
        forms = Forms(attributes)
        asked: list[tuple[Candidate, tuple[JsonObject, JsonObject]]] = []
        for candidate in self._source.candidates(attributes):
            shown = await self._caller.shown(candidate, attributes, forms, obj, old)
            if shown is not None:
                asked.append((candidate, shown))
        calls = (self._ask(candidate, n, attributes, *shown) for n, (candidate, shown) in enumerate(asked))
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
