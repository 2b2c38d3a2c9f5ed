"""The table of resources, and what is special to each of them.

`build_table` and `metadata`, the rules that all objects share, are all that the rest of the API server uses.
Everything here is a function of values: no I/O, no clock.

A module with a resource's name has its entry: names, columns, defaults, rules (`configuration` has three small ones).
What would be too much there, or is shared, stands beside it: `pod_...` and the `..._validation` of a pod's parts, which
`workloads` use for their templates too; `service_...`, in the order of a write: `service_transitions`,
`service_families`, `service_allocation`, `service_validation`; `field`, `addresses`, `ports`, `keys`, `quantities` for
rules about values; `columns` for cells; `warnings`.
"""

from __future__ import annotations

from collections.abc import Sequence

from bridgehead.apiserver.resource import Resource

from . import (
    configuration,
    daemonsets,
    deployments,
    endpoints,
    endpointslices,
    events,
    leases,
    namespaces,
    nodes,
    pods,
    replicasets,
)
from .services import service_resource

__all__ = ["build_table"]


def build_table(*, service_cidrs: Sequence[str], node_port_range: tuple[int, int]) -> tuple[Resource, ...]:
    """Every resource the API serves.

    `service_cidrs` are one range or two of different families, the cluster's own first; `node_port_range` is first and
    last port. Raises ValueError when a range is none.
    """
    return (
        namespaces.RESOURCE,
        nodes.RESOURCE,
        pods.RESOURCE,
        service_resource(service_cidrs, node_port_range),
        endpoints.RESOURCE,
        events.RESOURCE,
        configuration.CONFIG_MAPS,
        configuration.SECRETS,
        configuration.SERVICE_ACCOUNTS,
        deployments.RESOURCE,
        replicasets.RESOURCE,
        daemonsets.RESOURCE,
        endpointslices.RESOURCE,
        leases.RESOURCE,
    )
