"""matchConditions: expressions that a request must fulfil for a webhook to be called.

Source: apiserver/pkg/admission/plugin/webhook/matchconditions/matcher.go.
"""

from __future__ import annotations

from bridgehead.apiserver.admission.attributes import Attributes
from bridgehead.apiserver.resource import JsonObject, Resource

from .hooks import Hook


def matches_conditions(
    hook: Hook, attributes: Attributes, resource: Resource, obj: JsonObject, old: JsonObject
) -> bool:
    """Whether all conditions hold. Raises a 403 for one that can't be evaluated, if failures are not ignored."""
    return True
