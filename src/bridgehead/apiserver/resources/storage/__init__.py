"""Kinds of storage: PersistentVolume, PersistentVolumeClaim (core/v1), and those of storage.k8s.io/v1.

One module for each kind: `persistentvolumes` (with `volume_sources`), `persistentvolumeclaims`, `storageclasses`,
`volumeattachments`, `volumeattributesclasses`, `csidrivers`, `csinodes`, `csistoragecapacities`; common rules are in
`shared.storage_rules`. The controllers bind and provision hostPath and
local volumes; the kinds for CSI drivers are for other people's controllers.

Other packages import from here.
"""

from bridgehead.apiserver.resources.shared.storage_rules import class_of

from .csidrivers import RESOURCE as CSI_DRIVERS
from .csinodes import RESOURCE as CSI_NODES
from .csistoragecapacities import RESOURCE as CSI_STORAGE_CAPACITIES
from .persistentvolumeclaims import RESOURCE as PERSISTENT_VOLUME_CLAIMS
from .persistentvolumeclaims import set_claim_defaults
from .persistentvolumes import RESOURCE as PERSISTENT_VOLUMES
from .storageclasses import RESOURCE as STORAGE_CLASSES
from .storageclasses import is_default as is_default_storage_class
from .volumeattachments import RESOURCE as VOLUME_ATTACHMENTS
from .volumeattributesclasses import RESOURCE as VOLUME_ATTRIBUTES_CLASSES

__all__ = [
    "CSI_DRIVERS",
    "CSI_NODES",
    "CSI_STORAGE_CAPACITIES",
    "PERSISTENT_VOLUMES",
    "PERSISTENT_VOLUME_CLAIMS",
    "STORAGE_CLASSES",
    "VOLUME_ATTACHMENTS",
    "VOLUME_ATTRIBUTES_CLASSES",
    "class_of",
    "is_default_storage_class",
    "set_claim_defaults",
]
