"""matchConditions: expressions that a request must fulfil for a webhook to be called.

Source: apiserver/pkg/admission/plugin/webhook/matchconditions/matcher.go.
"""

from __future__ import annotations

from bridgehead.apiserver.access.authorization import Authorizer
from bridgehead.apiserver.admission.attributes import Attributes
from bridgehead.apiserver.errors import forbidden
from bridgehead.apiserver.resource import JsonObject, Resource

from .hooks import Hook
from .reviews import V1, build_review


def matches_conditions(
    hook: Hook, authorizer: Authorizer, attributes: Attributes, resource: Resource, obj: JsonObject, old: JsonObject
) -> bool:
    """Whether all conditions hold. Raises a 403 if one can't be evaluated, and no other one is false.

    With failurePolicy Ignore, a webhook whose condition can't be evaluated is not called.
    """
    from bridgehead.apiserver.admission.expressions import variables
    from bridgehead.apiserver.cel import (
        MATCH_CONDITIONS_BUDGET,
        Budget,
        BudgetExceeded,
        CompileError,
        EvaluationError,
    )
    from bridgehead.apiserver.resources.admissionregistration.expressions import compile_condition

    request = build_review(V1, "", attributes, resource, {}, {})["request"]
    values = variables(authorizer, attributes, request, obj, old)
    budget, errors = Budget(MATCH_CONDITIONS_BUDGET), []
    for condition in hook.match_conditions:
        expression = condition["expression"]
        try:
            if not compile_condition(expression.strip()).evaluate(values, budget):
                return False
        except EvaluationError as error:
            errors.append(f"expression '{expression}' resulted in error: {error}")
        except CompileError as error:
            errors.append(str(error))
        except BudgetExceeded as error:
            errors.append(str(error))
            break
    if not errors:
        return True
    if hook.ignores_failures:
        return False
    why = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
    raise forbidden(attributes.resource, attributes.name, why)
