"""The chain of this server, in Kubernetes' order (pkg/kubeapiserver/options/plugins.go)."""

from __future__ import annotations

from bridgehead.apiserver.access.authorization import Authorizer
from bridgehead.storage import Store

from .chain import Chain
from .classes import DefaultIngressClass, DefaultStorageClass, PodPriority, PriorityClasses, RuntimeClass
from .escalation import RoleEscalation
from .lifecycle import NamespaceLifecycle
from .node_addresses import NodeAddresses
from .node_restriction import NodeRestriction
from .podsecurity.plugin import PodSecurity
from .service_accounts import ServiceAccounts


def build_chain(store: Store, authorizer: Authorizer) -> Chain:
    return Chain(
        (
            NamespaceLifecycle(store),
            ServiceAccounts(store),
            NodeRestriction(store),
            PodSecurity(store),
            PodPriority(store),
            PriorityClasses(store),
            DefaultStorageClass(store),
            RuntimeClass(store),
            DefaultIngressClass(store),
            NodeAddresses(store),
            RoleEscalation(authorizer),
        )
    )
