"""The plug-ins of admission webhooks. The modules that call webhooks are imported with the first configuration.

Source: apiserver/pkg/admission/plugin/webhook/mutating/plugin.go, validating/plugin.go.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from bridgehead.apiserver.admission.attributes import Attributes
from bridgehead.apiserver.admission.chain import Plugin
from bridgehead.apiserver.admission.plugin_dependencies import PluginDependencies
from bridgehead.apiserver.resource import JsonObject

if TYPE_CHECKING:
    from .calls import Caller
    from .mutating import MutatingDispatcher
    from .validating import ValidatingDispatcher

_GROUP = "admissionregistration.k8s.io"
MUTATING, VALIDATING = f"mutatingwebhookconfigurations.{_GROUP}", f"validatingwebhookconfigurations.{_GROUP}"


class Webhooks:
    """The webhooks of a server. The two plug-ins share it."""

    def __init__(self, parts: PluginDependencies) -> None:
        self.parts = parts

    @cached_property
    def caller(self) -> Caller:
        from .calls import Caller

        return Caller(self.parts)


class MutatingWebhooks(Plugin):
    """The plug-in MutatingAdmissionWebhook."""

    def __init__(self, webhooks: Webhooks) -> None:
        self._webhooks = webhooks
        self._store = webhooks.parts.store

    def handles(self, attributes: Attributes) -> bool:
        return bool(self._store.list(MUTATING)) and self._dispatcher.handles(attributes)

    async def mutate(self, attributes: Attributes, obj: JsonObject, old: JsonObject) -> JsonObject:
        return await self._dispatcher.mutate(attributes, obj, old)

    @cached_property
    def _dispatcher(self) -> MutatingDispatcher:
        from .mutating import MutatingDispatcher

        return MutatingDispatcher(self._webhooks.caller, MUTATING)


class ValidatingWebhooks(Plugin):
    """The plug-in ValidatingAdmissionWebhook."""

    def __init__(self, webhooks: Webhooks) -> None:
        self._webhooks = webhooks
        self._store = webhooks.parts.store

    def handles(self, attributes: Attributes) -> bool:
        return bool(self._store.list(VALIDATING)) and self._dispatcher.handles(attributes)

    async def validate(self, attributes: Attributes, obj: JsonObject, old: JsonObject) -> None:
        await self._dispatcher.validate(attributes, obj, old)

    @cached_property
    def _dispatcher(self) -> ValidatingDispatcher:
        from .validating import ValidatingDispatcher

        return ValidatingDispatcher(self._webhooks.caller, VALIDATING)
