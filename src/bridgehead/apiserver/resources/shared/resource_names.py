"""Names of resources in quotas and in limits.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `pkg/apis/core/helper`, `validateResourceName`.
"""

from __future__ import annotations

from bridgehead.apiserver.resource import FieldError
from bridgehead.objects.names import check_qualified_name

from . import field

HUGE_PAGES = ("hugepages-", "requests.hugepages-")
POD_COMPUTE = frozenset({"cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"})
OBJECT_COUNTS = frozenset(
    {
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    }
)
_QUOTA = (
    POD_COMPUTE
    | OBJECT_COUNTS
    | {
        "ephemeral-storage",
        "requests.storage",
        "requests.ephemeral-storage",
        "limits.ephemeral-storage",
    }
)
_CONTAINER = frozenset({"cpu", "memory", "ephemeral-storage"})


def validate_resource_name(path: str, name: str) -> list[FieldError]:
    """Validate a name: a standard one, or a qualified one with a domain."""
    if errors := field.invalid_for(path, name, check_qualified_name(name)):
        return errors
    if "/" in name or name in _QUOTA or name == "storage" or name.startswith(HUGE_PAGES):
        return []
    return [field.invalid(path, name, "must be a standard resource type or fully qualified")]


def validate_quota_name(path: str, name: str) -> list[FieldError]:
    errors = validate_resource_name(path, name)
    if "/" not in name and not is_standard_quota_name(name):
        errors.append(field.invalid(path, name, "must be a standard resource for quota"))
    return errors


def is_standard_quota_name(name: str) -> bool:
    return name in _QUOTA or name.startswith(HUGE_PAGES)


def validate_container_name(path: str, name: str) -> list[FieldError]:
    """Validate the name of a resource of containers."""
    errors = validate_resource_name(path, name)
    if "/" not in name and name not in _CONTAINER and not name.startswith("hugepages-"):
        errors.append(field.invalid(path, name, "must be a standard resource for containers"))
    elif "/" in name and not _is_native(name) and name.startswith("requests."):
        errors.append(field.invalid(path, name, "doesn't follow extended resource name standard"))
    return errors


def _is_native(name: str) -> bool:
    return "/" not in name or "kubernetes.io/" in name
