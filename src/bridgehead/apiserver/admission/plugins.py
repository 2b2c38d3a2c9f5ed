"""The chain of this server, in Kubernetes' order (pkg/kubeapiserver/options/plugins.go)."""

from __future__ import annotations

from .certificate_requests import (
    CertificateApproval,
    CertificateRequests,
    CertificateSigning,
    CertificateSubjectRestriction,
)
from .chain import Chain
from .classes import (
    DefaultIngressClass,
    DefaultStorageClass,
    MissingIngressClass,
    PodPriority,
    PriorityClasses,
    RuntimeClass,
)
from .device_claims import DeviceRights
from .enabled_plugins import DENY_SERVICE_EXTERNAL_IPS
from .escalation import RoleEscalation
from .external_ips import DenyServiceExternalIps
from .limit_ranger import LimitRanger
from .namespace_lifecycle import NamespaceLifecycle
from .node_addresses import NodeAddresses
from .node_restriction import NodeRestriction
from .plugin_dependencies import PluginDependencies
from .pod_topology import PodTopologyLabels
from .podsecurity.plugin import PodSecurity
from .policies.policy_plugins import MutatingPolicies, ParameterRights, ValidatingPolicies
from .resource_quota import ResourceQuota
from .service_accounts import ServiceAccounts
from .volumes import ClaimResize, StorageProtection, VolumePhases
from .webhooks.webhook_plugins import MutatingWebhooks, ValidatingWebhooks, Webhooks


def build_chain(parts: PluginDependencies) -> Chain:
    store, authorizer, webhooks = parts.store, parts.authorizer, Webhooks(parts)
    return Chain(
        (
            NamespaceLifecycle(store),
            LimitRanger(store),
            ServiceAccounts(store),
            NodeRestriction(store, authorizer),
            PodSecurity(store),
            PodPriority(store),
            PriorityClasses(store),
            DefaultStorageClass(store),
            StorageProtection(),
            ClaimResize(store),
            RuntimeClass(store),
            DefaultIngressClass(store),
            *((DenyServiceExternalIps(),) if DENY_SERVICE_EXTERNAL_IPS in parts.enabled else ()),
            PodTopologyLabels(store),
            MutatingPolicies(parts),
            MutatingWebhooks(webhooks),
            CertificateRequests(parts.clock),
            VolumePhases(parts.clock),
            NodeAddresses(store),
            RoleEscalation(authorizer),
            CertificateApproval(authorizer),
            CertificateSigning(authorizer),
            CertificateSubjectRestriction(),
            DeviceRights(store, authorizer),
            ParameterRights(parts),
            MissingIngressClass(store),
            ValidatingPolicies(parts),
            ValidatingWebhooks(webhooks),
            ResourceQuota(store),
        )
    )
