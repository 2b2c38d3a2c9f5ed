"""Webhooks as their configurations describe them. Pure: no I/O, no clock, no randomness."""

from __future__ import annotations

from dataclasses import dataclass

from bridgehead.apiserver.admission.matching import parse_selector
from bridgehead.apiserver.resource import JsonObject
from bridgehead.objects.selectors import Selector

IGNORE = "Ignore"
_DEFAULT_SECONDS = 10.0


@dataclass(frozen=True, slots=True, eq=False)
class Hook:
    """One webhook of a configuration. `seconds` bounds a call."""

    name: str
    configuration: str
    rules: tuple[JsonObject, ...]
    client_config: JsonObject
    namespace_selector: Selector
    object_selector: Selector
    match_conditions: tuple[JsonObject, ...]
    review_versions: tuple[str, ...]
    seconds: float
    matches_equivalents: bool
    ignores_failures: bool
    has_side_effects: bool
    is_reinvoked: bool


def parse_hooks(configuration: JsonObject) -> list[Hook]:
    """Parse the webhooks of a configuration, which has default values."""
    name = configuration["metadata"]["name"]
    return [_parse_hook(name, one) for one in configuration.get("webhooks", ())]


def _parse_hook(configuration: str, webhook: JsonObject) -> Hook:
    return Hook(
        name=webhook["name"],
        configuration=configuration,
        rules=tuple(webhook.get("rules", ())),
        client_config=webhook.get("clientConfig", {}),
        namespace_selector=parse_selector(webhook.get("namespaceSelector")),
        object_selector=parse_selector(webhook.get("objectSelector")),
        match_conditions=tuple(webhook.get("matchConditions", ())),
        review_versions=tuple(webhook.get("admissionReviewVersions", ())),
        seconds=float(webhook.get("timeoutSeconds", _DEFAULT_SECONDS)),
        matches_equivalents=webhook.get("matchPolicy") != "Exact",
        ignores_failures=webhook.get("failurePolicy") == IGNORE,
        has_side_effects=webhook.get("sideEffects") not in ("None", "NoneOnDryRun"),
        is_reinvoked=webhook.get("reinvocationPolicy") == "IfNeeded",
    )
