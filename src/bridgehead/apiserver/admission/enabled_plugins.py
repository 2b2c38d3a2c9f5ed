"""The names of admission plug-ins that `--enable-admission-plugins` takes.

Pure: no I/O, no clock, no randomness. Source: kubernetes/pkg/kubeapiserver/options/plugins.go.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

DENY_SERVICE_EXTERNAL_IPS: Final = "DenyServiceExternalIPs"
OPTIONAL: Final = frozenset({DENY_SERVICE_EXTERNAL_IPS})
# The server always does what these plug-ins do.
_ALWAYS_ON: Final = frozenset(
    {
        "CertificateApproval", "CertificateSigning", "CertificateSubjectRestriction", "ClusterTrustBundleAttest",
        "DefaultIngressClass", "DefaultStorageClass", "DefaultTolerationSeconds", "LimitRanger",
        "MutatingAdmissionPolicy", "MutatingAdmissionWebhook", "NamespaceLifecycle", "NodeRestriction",
        "PersistentVolumeClaimResize", "PodSecurity", "PodTopologyLabels", "Priority", "ResourceQuota", "RuntimeClass",
        "ServiceAccount", "StorageObjectInUseProtection", "TaintNodesByCondition", "ValidatingAdmissionPolicy",
        "ValidatingAdmissionWebhook",
    }
)  # fmt: skip
_MISSING: Final = frozenset(
    {
        "AlwaysAdmit", "AlwaysDeny", "AlwaysPullImages", "EventRateLimit", "ExtendedResourceToleration",
        "ImagePolicyWebhook", "LimitPodHardAntiAffinityTopology", "NamespaceAutoProvision", "NamespaceExists",
        "OwnerReferencesPermissionEnforcement", "PodNodeSelector", "PodTolerationRestriction",
    }
)  # fmt: skip


def select_plugins(names: Iterable[str]) -> frozenset[str]:
    """Return the optional plug-ins among the names that a user enables. Raises ValueError."""
    found = set(names)
    for name in sorted(found - OPTIONAL - _ALWAYS_ON):
        if name in _MISSING:
            known = ", ".join(sorted(OPTIONAL))
            raise ValueError(f"enable-admission-plugins: this server does not have {name}; optional ones: {known}")
        raise ValueError(f'enable-admission-plugins plugin "{name}" is unknown')
    return frozenset(found & OPTIONAL)
