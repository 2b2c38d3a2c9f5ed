"""Workloads: the kinds of apps/v1, and ReplicationController and PodTemplate of core/v1.

One module for each kind: `deployments`, `replicasets`, `replicationcontrollers`, `daemonsets`, `statefulsets`,
`controllerrevisions`, `podtemplates`. `workload_strategy` has the common rules of all but ControllerRevision and
PodTemplate.

Other packages import from here.
"""

from .controllerrevisions import RESOURCE as CONTROLLER_REVISIONS
from .daemonsets import RESOURCE as DAEMON_SETS
from .deployments import RESOURCE as DEPLOYMENTS
from .podtemplates import RESOURCE as POD_TEMPLATES
from .replicasets import RESOURCE as REPLICA_SETS
from .replicationcontrollers import RESOURCE as REPLICATION_CONTROLLERS
from .statefulsets import RESOURCE as STATEFUL_SETS

__all__ = [
    "CONTROLLER_REVISIONS",
    "DAEMON_SETS",
    "DEPLOYMENTS",
    "POD_TEMPLATES",
    "REPLICATION_CONTROLLERS",
    "REPLICA_SETS",
    "STATEFUL_SETS",
]
