"""The cluster's zone: what names exist, and their finished answers.

specification     Services, EndpointSlices and pods -> names and record sets (the Kubernetes DNS specification)
finished_answers  record sets -> finished answers, by the bytes of their question; `Zone`
zone_file         the zone as text, for `bridgehead dns --dump`
transfer          the zone as messages, for AXFR
"""

from .finished_answers import NODATA, Zone
from .specification import (
    ServiceRecords,
    endpoint_names,
    endpoints_by_address,
    extra_records,
    index_by_address,
    pod_records,
    service_records,
)
from .transfer import is_allowed, transfer
from .zone_file import zone_file

__all__ = [
    "NODATA",
    "ServiceRecords",
    "Zone",
    "endpoint_names",
    "endpoints_by_address",
    "extra_records",
    "index_by_address",
    "is_allowed",
    "pod_records",
    "service_records",
    "transfer",
    "zone_file",
]
