"""Admission webhooks: programs that the API server asks about writes.

webhook_plugins    the plug-ins; the other modules are imported with the first configuration
hooks              webhooks as their configurations describe them
webhook_sources    the webhooks of the stored configurations, and those that may be for a request
admission_reviews  AdmissionReviews and their answers
match_conditions   matchConditions
calls              one call, with its failure policy
mutating           MutatingAdmissionWebhook
validating         ValidatingAdmissionWebhook
metrics            counters and durations
errors             why a webhook gave no usable answer

Source: apiserver/pkg/admission/plugin/webhook.
"""
