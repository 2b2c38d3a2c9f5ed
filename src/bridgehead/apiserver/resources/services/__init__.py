"""Service (core/v1).

    services              the entry in the table, and the order in which a write applies the rules:
    service_defaults      defaults, values that an update keeps, values that a change of type drops
    service_families      IP families (dual stack)
    service_allocation    ClusterIPs and node ports, and the claims that make them exclusive
    cluster_ip_ranges     the ranges of the cluster, and the IPAddress objects of addresses
    service_ingress       addresses of load balancers
    service_source_ranges the clients that a load balancer lets in
    service_validation    the finished Service, and what an update may not change
    service_warnings      Warning headers
    service_types         what a Service of each type needs, for all of these

Other packages import from here.
"""

from .cluster_ip_ranges import IP_ADDRESSES, MANAGER, MANAGER_LABEL, ServiceRanges, address_object
from .service_allocation import address_claim
from .service_ingress import added_addresses
from .services import ServiceStrategy, service_resource

__all__ = [
    "IP_ADDRESSES",
    "MANAGER",
    "MANAGER_LABEL",
    "ServiceRanges",
    "ServiceStrategy",
    "added_addresses",
    "address_claim",
    "address_object",
    "service_resource",
]
