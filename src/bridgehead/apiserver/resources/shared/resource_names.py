"""Names of resources in pods, quotas, limits and claims.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `pkg/apis/core/helper`, `validateResourceName`,
`validateContainerResourceName`, `ValidateResourceQuotaResourceName`, `validatePodResourceName`.
"""

from __future__ import annotations

from bridgehead.apiserver.resource import FieldError
from bridgehead.objects.names import check_qualified_name

from . import field

HUGE_PAGES = "hugepages-"
COMPUTE = ("cpu", "memory")
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
_HUGE_PAGES_OF_QUOTAS = (HUGE_PAGES, f"requests.{HUGE_PAGES}")
_OF_CONTAINERS = frozenset({*COMPUTE, "ephemeral-storage"})
_SUPPORTED_FOR_PODS = ("cpu", HUGE_PAGES, "memory")


def validate_resource_name(path: str, name: str) -> list[FieldError]:
    """Validate a name: a standard one, or a qualified one with a domain."""
    if errors := field.invalid_for(path, name, check_qualified_name(name)):
        return errors
    if "/" in name or name in _QUOTA or name == "storage" or name.startswith(_HUGE_PAGES_OF_QUOTAS):
        return []
    return [field.invalid(path, name, "must be a standard resource type or fully qualified")]


def validate_quota_name(path: str, name: str) -> list[FieldError]:
    errors = validate_resource_name(path, name)
    if "/" not in name and not is_standard_quota_name(name):
        errors.append(field.invalid(path, name, "must be a standard resource for quota"))
    return errors


def is_standard_quota_name(name: str) -> bool:
    return name in _QUOTA or name.startswith(_HUGE_PAGES_OF_QUOTAS)


def validate_container_name(path: str, name: str) -> list[FieldError]:
    """Validate the name of a resource of containers."""
    if name in _OF_CONTAINERS:
        return []
    errors = validate_resource_name(path, name)
    if "/" not in name:
        if not name.startswith(HUGE_PAGES):
            errors.append(field.invalid(path, name, "must be a standard resource for containers"))
    elif not is_native(name) and not is_extended(name):
        errors.append(field.invalid(path, name, "doesn't follow extended resource name standard"))
    return errors


def validate_pod_level_name(path: str, name: str) -> list[FieldError]:
    """Validate the name of a resource that a pod requests as a whole."""
    if name in COMPUTE or name.startswith(HUGE_PAGES):
        return []
    return validate_resource_name(path, name) or [field.not_supported(path, name, _SUPPORTED_FOR_PODS)]


def is_native(name: str) -> bool:
    """Whether Kubernetes itself defines the resource."""
    return "/" not in name or "kubernetes.io/" in name


def is_extended(name: str) -> bool:
    """Whether a device plug-in or a driver may offer the resource. Quotas put `requests.` before such a name."""
    return not is_native(name) and not name.startswith("requests.") and not check_qualified_name(f"requests.{name}")


def can_overcommit(name: str) -> bool:
    """Whether a limit may be higher than the request, which holds neither for devices nor for huge pages."""
    return is_native(name) and not name.startswith(HUGE_PAGES)
