"""The kinds of admissionregistration.k8s.io/v1.

rules                   rules of webhooks and policies: defaults and validation
match_conditions        validation of match conditions
expressions             compilation of expressions; imported when the first one is compiled
webhookconfigurations   MutatingWebhookConfiguration, ValidatingWebhookConfiguration

Other packages import from here.
"""

from .match_conditions import validate_match_conditions
from .rules import default_rules, validate_rule_with_operations
from .webhookconfigurations import MUTATING_WEBHOOK_CONFIGURATIONS, VALIDATING_WEBHOOK_CONFIGURATIONS

__all__ = [
    "MUTATING_WEBHOOK_CONFIGURATIONS",
    "VALIDATING_WEBHOOK_CONFIGURATIONS",
    "default_rules",
    "validate_match_conditions",
    "validate_rule_with_operations",
]
