"""The chain of this server, in Kubernetes' order (pkg/kubeapiserver/options/plugins.go)."""

from __future__ import annotations

from bridgehead.storage import Store

from .chain import Chain
from .classes import DefaultIngressClass, DefaultStorageClass, PodPriority, PriorityClasses, RuntimeClass
from .lifecycle import NamespaceLifecycle
from .node_addresses import NodeAddresses
from .node_restriction import NodeRestriction
from .service_accounts import ServiceAccounts


def build_chain(store: Store) -> Chain:
    return Chain(
        (
            NamespaceLifecycle(store),
            ServiceAccounts(store),
            NodeRestriction(store),
            PodPriority(store),
            PriorityClasses(store),
            DefaultStorageClass(store),
            RuntimeClass(store),
            DefaultIngressClass(store),
            NodeAddresses(store),
        )
    )
