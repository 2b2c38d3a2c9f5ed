"""The table of resources, and the rules of each.

`build_table` makes the table. docs/recipes/add-a-kind.md explains how to add a resource.

    namespaces, nodes, leases, endpoints, endpointslices, configmaps, secrets, serviceaccounts, priorityclasses,
    poddisruptionbudgets, componentstatuses
                    one module for each resource: names, columns, defaults, validation
    pods/           Pod; also the defaults and the validation of pod templates
    services/       Service; also the allocation of ClusterIPs and node ports
    events/         Event, in two groups
    batch/          Job, CronJob
    workloads/      the kinds of apps, ReplicationController, PodTemplate
    autoscaling/    HorizontalPodAutoscaler, in two versions
    quotas/         ResourceQuota, LimitRange
    networking/     Ingress, IngressClass, NetworkPolicy, ServiceCIDR, IPAddress
    runtimeclasses  RuntimeClass
    storage/        PersistentVolume, PersistentVolumeClaim and the kinds of storage.k8s.io
    devices/        the kinds of resource.k8s.io
    flowcontrol/    FlowSchema, PriorityLevelConfiguration
    admissionregistration/  configurations of webhooks, admission policies
    rbac/           Role, ClusterRole, RoleBinding, ClusterRoleBinding; also the default ones
    apiservices     APIService
    certificates/   CertificateSigningRequest
    shared/         rules and columns that several resources use

Nothing here does I/O or reads a clock. The only randomness is that of the allocation for Services
and of generated names.
"""

from __future__ import annotations

from collections.abc import Sequence

from bridgehead.apiserver.resource import Resource

from . import (
    admissionregistration,
    apiservices,
    autoscaling,
    batch,
    certificates,
    componentstatuses,
    configmaps,
    devices,
    endpoints,
    endpointslices,
    events,
    flowcontrol,
    leases,
    namespaces,
    networking,
    nodes,
    poddisruptionbudgets,
    pods,
    priorityclasses,
    quotas,
    rbac,
    runtimeclasses,
    secrets,
    serviceaccounts,
    storage,
    workloads,
)
from .services import service_resource

__all__ = ["build_table"]


def build_table(*, service_cidrs: Sequence[str], node_port_range: tuple[int, int]) -> tuple[Resource, ...]:
    """Return every resource that the API serves.

    `service_cidrs` are one range, or two of different families with the cluster's primary family first.
    `node_port_range` is the first and the last port. Raises ValueError for a malformed range.
    """
    return (
        namespaces.RESOURCE,
        nodes.RESOURCE,
        pods.RESOURCE,
        service_resource(service_cidrs, node_port_range),
        endpoints.RESOURCE,
        events.CORE_EVENTS,
        configmaps.RESOURCE,
        componentstatuses.RESOURCE,
        secrets.RESOURCE,
        serviceaccounts.RESOURCE,
        quotas.RESOURCE_QUOTAS,
        quotas.LIMIT_RANGES,
        workloads.DEPLOYMENTS,
        workloads.REPLICA_SETS,
        workloads.DAEMON_SETS,
        workloads.STATEFUL_SETS,
        workloads.CONTROLLER_REVISIONS,
        workloads.POD_TEMPLATES,
        workloads.REPLICATION_CONTROLLERS,
        autoscaling.HORIZONTAL_POD_AUTOSCALERS,
        autoscaling.OLDER_HORIZONTAL_POD_AUTOSCALERS,
        batch.JOBS,
        batch.CRON_JOBS,
        endpointslices.RESOURCE,
        leases.RESOURCE,
        events.EVENTS,
        networking.INGRESSES,
        networking.INGRESS_CLASSES,
        networking.NETWORK_POLICIES,
        networking.SERVICE_CIDRS,
        networking.IP_ADDRESSES,
        runtimeclasses.RESOURCE,
        priorityclasses.RESOURCE,
        poddisruptionbudgets.RESOURCE,
        storage.PERSISTENT_VOLUMES,
        storage.PERSISTENT_VOLUME_CLAIMS,
        storage.STORAGE_CLASSES,
        storage.VOLUME_ATTACHMENTS,
        storage.VOLUME_ATTRIBUTES_CLASSES,
        storage.CSI_DRIVERS,
        storage.CSI_NODES,
        storage.CSI_STORAGE_CAPACITIES,
        devices.DEVICE_CLASSES,
        devices.RESOURCE_CLAIMS,
        devices.RESOURCE_CLAIM_TEMPLATES,
        devices.RESOURCE_SLICES,
        flowcontrol.FLOW_SCHEMAS,
        flowcontrol.PRIORITY_LEVELS,
        admissionregistration.MUTATING_WEBHOOK_CONFIGURATIONS,
        admissionregistration.VALIDATING_WEBHOOK_CONFIGURATIONS,
        admissionregistration.VALIDATING_ADMISSION_POLICIES,
        admissionregistration.VALIDATING_ADMISSION_POLICY_BINDINGS,
        admissionregistration.MUTATING_ADMISSION_POLICIES,
        admissionregistration.MUTATING_ADMISSION_POLICY_BINDINGS,
        rbac.ROLES,
        rbac.CLUSTER_ROLES,
        rbac.ROLE_BINDINGS,
        rbac.CLUSTER_ROLE_BINDINGS,
        apiservices.RESOURCE,
        certificates.CERTIFICATE_SIGNING_REQUESTS,
    )
