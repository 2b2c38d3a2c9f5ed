"""The plug-ins of admission policies. The modules that evaluate policies are imported with the first policy.

Source: apiserver/pkg/admission/plugin/policy/validating/plugin.go, mutating/plugin.go.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from bridgehead.apiserver.admission.attributes import CREATE, UPDATE, Attributes
from bridgehead.apiserver.admission.chain import Plugin
from bridgehead.apiserver.admission.plugin_dependencies import PluginDependencies
from bridgehead.apiserver.resource import JsonObject

if TYPE_CHECKING:
    from .mutating import MutatingDispatcher
    from .validating import ValidatingDispatcher

_GROUP = "admissionregistration.k8s.io"
VALIDATING, MUTATING = f"validatingadmissionpolicies.{_GROUP}", f"mutatingadmissionpolicies.{_GROUP}"
VALIDATING_BINDINGS = f"validatingadmissionpolicybindings.{_GROUP}"
MUTATING_BINDINGS = f"mutatingadmissionpolicybindings.{_GROUP}"
_KINDS = frozenset({VALIDATING, VALIDATING_BINDINGS, MUTATING, MUTATING_BINDINGS})


class MutatingPolicies(Plugin):
    """The plug-in MutatingAdmissionPolicy."""

    def __init__(self, parts: PluginDependencies) -> None:
        self._parts, self._store = parts, parts.store

    def handles(self, attributes: Attributes) -> bool:
        return bool(self._store.list(MUTATING)) and self._dispatcher.handles(attributes)

    async def mutate(self, attributes: Attributes, obj: JsonObject, old: JsonObject) -> JsonObject:
        return await self._dispatcher.mutate(attributes, obj, old)

    @cached_property
    def _dispatcher(self) -> MutatingDispatcher:
        from .mutating import MutatingDispatcher

        return MutatingDispatcher(self._parts, MUTATING, MUTATING_BINDINGS)


class ValidatingPolicies(Plugin):
    """The plug-in ValidatingAdmissionPolicy."""

    def __init__(self, parts: PluginDependencies) -> None:
        self._parts, self._store = parts, parts.store

    def handles(self, attributes: Attributes) -> bool:
        return bool(self._store.list(VALIDATING)) and self._dispatcher.handles(attributes)

    async def validate(self, attributes: Attributes, obj: JsonObject, old: JsonObject) -> None:
        await self._dispatcher.validate(attributes, obj, old)

    @cached_property
    def _dispatcher(self) -> ValidatingDispatcher:
        from .validating import ValidatingDispatcher

        return ValidatingDispatcher(self._parts, VALIDATING, VALIDATING_BINDINGS)


class ParameterRights(Plugin):
    """Refusal of policies and bindings whose writer may not read the parameters that they name."""

    def __init__(self, parts: PluginDependencies) -> None:
        self._parts = parts

    def handles(self, attributes: Attributes) -> bool:
        return attributes.resource.id in _KINDS and attributes.operation in (CREATE, UPDATE)

    async def validate(self, attributes: Attributes, obj: JsonObject, old: JsonObject) -> None:
        from .rights import check_param_kind, check_param_ref

        if attributes.resource.id in (VALIDATING, MUTATING):
            check_param_kind(self._parts, attributes, obj, old)
        else:
            policies = VALIDATING if attributes.resource.id == VALIDATING_BINDINGS else MUTATING
            check_param_ref(self._parts, policies, attributes, obj, old)
