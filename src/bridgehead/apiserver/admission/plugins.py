"""The chain of this server, in Kubernetes' order (pkg/kubeapiserver/options/plugins.go)."""

from __future__ import annotations

from bridgehead.apiserver.access.authorization import Authorizer
from bridgehead.apiserver.table import ResourceTable

from .chain import Chain
from .classes import DefaultIngressClass, DefaultStorageClass, PodPriority, PriorityClasses, RuntimeClass
from .escalation import RoleEscalation
from .lifecycle import NamespaceLifecycle
from .node_addresses import NodeAddresses
from .node_restriction import NodeRestriction
from .podsecurity.plugin import PodSecurity
from .policies.mutating import MutatingPolicies, TypeOf
from .policies.validating import ValidatingPolicies
from .service_accounts import ServiceAccounts
from .webhooks.calls import Caller
from .webhooks.mutating import MutatingWebhooks, ShapeOf
from .webhooks.validating import ValidatingWebhooks


def build_chain(
    caller: Caller, authorizer: Authorizer, table: ResourceTable, shape_of: ShapeOf, type_of: TypeOf
) -> Chain:
    """Return the chain.

    `caller` calls webhooks. `shape_of` returns the shapes of the objects that webhooks and policies change, `type_of`
    their types for merges.
    """
    store = caller.store
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
            MutatingPolicies(store, authorizer, table, shape_of, type_of),
            MutatingWebhooks(caller, table, shape_of),
            NodeAddresses(store),
            RoleEscalation(authorizer),
            ValidatingPolicies(store, authorizer, table),
            ValidatingWebhooks(caller, table),
        )
    )
