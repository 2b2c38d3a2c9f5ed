"""Pod (core/v1), and the rules for pod templates, which `workloads` uses.

    pods              the entry in the table: names, hooks, field selectors
    pod_defaults      values for fields that a pod spec leaves out
    disabled_fields   fields whose feature gates are off by default
    pod_validation    the spec as a whole, templates, and which fields of a pod may change; calls the validation of
                      parts: container_validation, ephemeral_validation, probe_validation, security_validation,
                      volume_validation, resource_validation, claims_validation, affinity_validation,
                      spread_validation, windows_validation, annotation_validation; of changes: gated_validation,
                      resize_validation
    pod_containers    the containers of a spec, with their paths
    volume_sources    the rules for volumes of types that no node of ours provides
    pod_only_validation  rules that templates need not follow
    status_validation    writes of the status
    label_keys        selectors with values of the pod's own labels
    pod_columns       the columns of `kubectl get pods`
    pod_qos           the quality-of-service class
    pod_resources     what a pod requests as a whole, and its limits
    pod_warnings      Warning headers; calls volume_warnings
    pod_references    the ConfigMaps and Secrets that a pod refers to, for access control and admission

Other packages import from here.
"""

from .affinity_validation import validate_node_selector
from .disabled_fields import drop_disabled_fields
from .pod_defaults import set_spec_defaults
from .pod_qos import qos_class
from .pod_references import references
from .pod_resources import ONE, ZERO, Amount, Amounts, add, parse_amounts, pod_amounts
from .pod_validation import TOLERATION_FIELDS, validate_template, validate_tolerations
from .pod_warnings import warn_of_template
from .pods import RESOURCE
from .resource_validation import validate_overhead

__all__ = [
    "ONE",
    "RESOURCE",
    "TOLERATION_FIELDS",
    "ZERO",
    "Amount",
    "Amounts",
    "add",
    "drop_disabled_fields",
    "parse_amounts",
    "pod_amounts",
    "qos_class",
    "references",
    "set_spec_defaults",
    "validate_node_selector",
    "validate_overhead",
    "validate_template",
    "validate_tolerations",
    "warn_of_template",
]
