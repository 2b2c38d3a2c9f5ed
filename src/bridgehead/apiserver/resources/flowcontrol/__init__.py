"""FlowSchema and PriorityLevelConfiguration (flowcontrol.apiserver.k8s.io/v1).

One module for each kind: `flowschemas`, `prioritylevels`. `mandatory` has the objects that every cluster has,
`suggested` those of a new cluster.

Other packages import from here.
"""

from .flowschemas import RESOURCE as FLOW_SCHEMAS
from .mandatory import FLOW_SCHEMA_SPECS, PRIORITY_LEVEL_SPECS
from .prioritylevels import RESOURCE as PRIORITY_LEVELS
from .suggested import SUGGESTED_FLOW_SCHEMA_SPECS, SUGGESTED_PRIORITY_LEVEL_SPECS

__all__ = [
    "FLOW_SCHEMAS",
    "FLOW_SCHEMA_SPECS",
    "PRIORITY_LEVELS",
    "PRIORITY_LEVEL_SPECS",
    "SUGGESTED_FLOW_SCHEMA_SPECS",
    "SUGGESTED_PRIORITY_LEVEL_SPECS",
]
