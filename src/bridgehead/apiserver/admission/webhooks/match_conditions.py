"""matchConditions: expressions that a request must fulfil for a webhook to be called.

CEL is imported with the first request for a webhook that has conditions.
Source: apiserver/pkg/admission/plugin/webhook/generic/webhook.go.
"""

from __future__ import annotations

import logging
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from bridgehead.apiserver.access.authorization import Authorizer
from bridgehead.apiserver.admission.attributes import Attributes
from bridgehead.apiserver.errors import forbidden
from bridgehead.apiserver.http.worker import LONG_BYTES, in_loop, run_long
from bridgehead.apiserver.resource import JsonObject, Resource

from .hooks import Hook

if TYPE_CHECKING:
    from bridgehead.apiserver.admission.evaluation import MatchConditions

log = logging.getLogger(__name__)

_MOST_KEPT = 1024


async def matches_conditions(
    hook: Hook, authorizer: Authorizer, attributes: Attributes, resource: Resource, obj: JsonObject, old: JsonObject
) -> bool:
    """Whether all conditions hold. Raises a 403 if one can't be evaluated, and no other one is false.

    With failurePolicy Ignore, a webhook whose condition can't be evaluated is not called.
    """
    from bridgehead.apiserver.admission.evaluation import ExpressionFailed, work_size
    from bridgehead.apiserver.admission.expression_variables import request_variables

    variables = request_variables(attributes, resource, obj, old, in_loop(authorizer.decide))
    conditions = _compiled(hook)
    try:
        size = work_size(conditions.expressions, obj or old, LONG_BYTES)
        return await run_long(size, partial(conditions.hold, variables))
    except ExpressionFailed as error:
        if hook.ignores_failures:
            log.warning("match conditions of webhook %s: %s; the webhook is not called", hook.name, error)
            return False
        raise forbidden(attributes.resource, attributes.name, str(error)) from None


@lru_cache(maxsize=_MOST_KEPT)  # hooks are made anew when their configuration changes
def _compiled(hook: Hook) -> MatchConditions:
    from bridgehead.apiserver.admission.evaluation import MatchConditions

    return MatchConditions(hook.match_conditions)
