"""Roles and bindings that every cluster has.

notation     short notation
cluster      ClusterRoles of users and components, and their bindings
controllers  ClusterRoles of Kubernetes' controllers, and their bindings
namespaces   Roles and RoleBindings in kube-system and kube-public
bridgehead_roles  rights of this project's own parts

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from bridgehead.apiserver.resource import JsonObject

from .bridgehead_roles import own_objects
from .cluster import cluster_role_bindings, cluster_roles
from .controllers import controller_role_bindings, controller_roles
from .namespaces import namespace_objects


def default_objects() -> list[JsonObject]:
    """Return all default roles and bindings, new at each call."""
    controllers = controller_roles()
    return [
        *cluster_roles(),
        *controllers,
        *cluster_role_bindings(),
        *controller_role_bindings(controllers),
        *namespace_objects(),
        *own_objects(),
    ]
