"""Role, ClusterRole, RoleBinding and ClusterRoleBinding (rbac.authorization.k8s.io/v1).

roles, rolebindings  entries in the table: columns, defaults, validation
rules                a PolicyRule as a value, and the requests that it allows
covering             which permissions of some rules other rules do not include
reconciliation       changes that make an existing object include a default one
defaults/            the objects that every cluster has

Pure: no I/O, no clock, no randomness. Source: Kubernetes pkg/apis/rbac, pkg/registry/rbac.
"""

from .rolebindings import CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS
from .roles import CLUSTER_ROLES, ROLES
from .rules import GROUP, Rule

__all__ = ["CLUSTER_ROLES", "CLUSTER_ROLE_BINDINGS", "GROUP", "ROLES", "ROLE_BINDINGS", "Rule"]
