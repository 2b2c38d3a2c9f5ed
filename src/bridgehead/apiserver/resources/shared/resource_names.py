"""Names of resources in pods, quotas, limits and claims.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `pkg/apis/core/helper`, `validateResourceName`,
`validateContainerResourceName`, `ValidateResourceQuotaResourceName`, `validatePodResourceName`.
"""

from __future__ import annotations

from bridgehead.apiserver.field import Field
from bridgehead.objects.names import check_qualified_name

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


def validate_resource_name(name: Field) -> bool:
    """Validate a name: a standard one, or a qualified one with a domain. Return whether it is valid."""
    if not name.must_pass(check_qualified_name):
        return False
    text = name.value
    is_valid = "/" in text or text in _QUOTA or text == "storage" or text.startswith(_HUGE_PAGES_OF_QUOTAS)
    if not is_valid:
        name.invalid("must be a standard resource type or fully qualified")
    return is_valid


def validate_quota_name(name: Field) -> None:
    validate_resource_name(name)
    if "/" not in name.value and not is_standard_quota_name(name.value):
        name.invalid("must be a standard resource for quota")


def is_standard_quota_name(name: str) -> bool:
    return name in _QUOTA or name.startswith(_HUGE_PAGES_OF_QUOTAS)


def validate_container_name(name: Field) -> None:
    """Validate the name of a resource of containers."""
    text = name.value
    if text in _OF_CONTAINERS:
        return
    validate_resource_name(name)
    if "/" not in text:
        if not text.startswith(HUGE_PAGES):
            name.invalid("must be a standard resource for containers")
    elif not is_native(text) and not is_extended(text):
        name.invalid("doesn't follow extended resource name standard")


def validate_pod_level_name(name: Field) -> None:
    """Validate the name of a resource that a pod requests as a whole."""
    is_known = name.value in COMPUTE or name.value.startswith(HUGE_PAGES)
    if not is_known and validate_resource_name(name):
        name.not_supported(_SUPPORTED_FOR_PODS)


def is_native(name: str) -> bool:
    """Whether Kubernetes itself defines the resource."""
    return "/" not in name or "kubernetes.io/" in name


def is_extended(name: str) -> bool:
    """Whether a device plug-in or a driver may offer the resource. Quotas put `requests.` before such a name."""
    return not is_native(name) and not name.startswith("requests.") and not check_qualified_name(f"requests.{name}")


def can_overcommit(name: str) -> bool:
    """Whether a limit may be higher than the request, which holds neither for devices nor for huge pages."""
    return is_native(name) and not name.startswith(HUGE_PAGES)
