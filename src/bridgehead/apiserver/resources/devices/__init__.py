"""DeviceClass, ResourceClaim, ResourceClaimTemplate and ResourceSlice (resource.k8s.io/v1).

One module for each kind: `deviceclasses`, `resourceclaims`, `resourceclaimtemplates`, `resourceslices`.

`device_rules` has their common rules, `qualified_names` those of names of attributes and capacities, `request_policies`
those for parts of a capacity. The scheduler of this project allocates no devices: these objects are for other people's
drivers and schedulers. CEL expressions are compiled to check them; they are not evaluated.

Other packages import from here.
"""

from .deviceclasses import RESOURCE as DEVICE_CLASSES
from .resourceclaims import RESOURCE as RESOURCE_CLAIMS
from .resourceclaims import changed_drivers, node_of_allocation
from .resourceclaimtemplates import RESOURCE as RESOURCE_CLAIM_TEMPLATES
from .resourceslices import RESOURCE as RESOURCE_SLICES

__all__ = [
    "DEVICE_CLASSES",
    "RESOURCE_CLAIMS",
    "RESOURCE_CLAIM_TEMPLATES",
    "RESOURCE_SLICES",
    "changed_drivers",
    "node_of_allocation",
]
