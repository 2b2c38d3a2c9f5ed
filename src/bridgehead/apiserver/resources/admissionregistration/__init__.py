"""The kinds of admissionregistration.k8s.io/v1.

rules                   rules of webhooks and policies: defaults and validation
match_conditions        validation of match conditions
expressions             validation of expressions: what they may use and return
policies                ValidatingAdmissionPolicy, MutatingAdmissionPolicy
policy_bindings         their bindings
policy_rules            rules that policies and bindings share
webhookconfigurations   MutatingWebhookConfiguration, ValidatingWebhookConfiguration

Other packages import from here.
"""

from .policies import MUTATING_ADMISSION_POLICIES, VALIDATING_ADMISSION_POLICIES
from .policy_bindings import MUTATING_ADMISSION_POLICY_BINDINGS, VALIDATING_ADMISSION_POLICY_BINDINGS
from .webhookconfigurations import MUTATING_WEBHOOK_CONFIGURATIONS, VALIDATING_WEBHOOK_CONFIGURATIONS

__all__ = [
    "MUTATING_ADMISSION_POLICIES",
    "MUTATING_ADMISSION_POLICY_BINDINGS",
    "MUTATING_WEBHOOK_CONFIGURATIONS",
    "VALIDATING_ADMISSION_POLICIES",
    "VALIDATING_ADMISSION_POLICY_BINDINGS",
    "VALIDATING_WEBHOOK_CONFIGURATIONS",
]
