"""Deployment, ReplicaSet, DaemonSet (apps/v1), ReplicationController and PodTemplate (core/v1): one module for each.

`workload_strategy` has the common rules of all but PodTemplate.

Other packages import from here.
"""

from .daemonsets import RESOURCE as DAEMON_SETS
from .deployments import RESOURCE as DEPLOYMENTS
from .podtemplates import RESOURCE as POD_TEMPLATES
from .replicasets import RESOURCE as REPLICA_SETS
from .replicationcontrollers import RESOURCE as REPLICATION_CONTROLLERS

__all__ = ["DAEMON_SETS", "DEPLOYMENTS", "POD_TEMPLATES", "REPLICATION_CONTROLLERS", "REPLICA_SETS"]
