"""The vocabulary that redaction keeps: that of the API, and names that every cluster has.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import msgspec

from bridgehead.objects.kinds import ALL_KINDS

from .sources import SOURCES

_VALUES = """
TCP UDP SCTP IPv4 IPv6 FQDN True False Unknown Pending Running Succeeded Failed Active Terminating Ready Initialized
PodScheduled ContainersReady PodReadyToStartContainers MemoryPressure DiskPressure PIDPressure NetworkUnavailable
ClusterIP NodePort LoadBalancer ExternalName None Cluster Local ClientIP SingleStack PreferDualStack RequireDualStack
PreferClose PreferSameZone PreferSameNode Always IfNotPresent Never OnFailure ClusterFirst ClusterFirstWithHostNet
Default Guaranteed Burstable BestEffort InternalIP ExternalIP Hostname Normal Warning RollingUpdate Recreate OnDelete
OrderedReady Parallel NoSchedule NoExecute PreferNoSchedule Exists Equal In NotIn DoesNotExist Gt Lt Ingress Egress
Prefix Exact ImplementationSpecific Available Progressing ReplicaFailure NewReplicaSetAvailable
MinimumReplicasAvailable MinimumReplicasUnavailable ReplicaSetUpdated Unhealthy BackOff Killing Created Started Pulled
Pulling Scheduled FailedScheduling ScalingReplicaSet SuccessfulCreate SuccessfulDelete ContainersNotReady PodCompleted
CrashLoopBackOff ImagePullBackOff ErrImagePull ContainerCreating PodInitializing Completed Error OOMKilled KubeletReady
File RuntimeDefault Unconfined Retain Delete kubernetes HTTP HTTPS VIP Proxy
default kube-system kube-public kube-node-lease kube-dns coredns kube-proxy default-scheduler kubelet cpu memory pods
ephemeral-storage hugepages-1Gi hugepages-2Mi nftables iptables ipvs userspace true false linux amd64 arm64
endpointslice-controller.k8s.io endpointslicemirroring-controller.k8s.io service-proxy v1 apps
"""


@lru_cache
def known_values() -> frozenset[str]:
    """Return the strings that are kept wherever they are."""
    values = set(_VALUES.split())
    for source in SOURCES:
        values |= {source.api_version, source.kind}
    return frozenset(values)


# Fields of kinds for which there is no struct.
_FIELDS = """
apiVersion kind metadata spec status generation creationTimestamp deletionTimestamp deletionGracePeriodSeconds
resourceVersion uid podSelector namespaceSelector ingress egress policyTypes from to ports port endPort ipBlock cidr
except ingressClassName defaultBackend rules host http paths path pathType backend service number tls hosts secretName
addresses autoAssign avoidBuggyIPs serviceAllocation priority address protocol interface disable loadBalancer
"""


@lru_cache
def known_fields() -> frozenset[str]:
    """Return the names of the fields of all kinds; other keys in objects are names that a user chose."""
    seen: set[type] = set()
    fields = set(_FIELDS.split())
    for kind in ALL_KINDS:
        for struct in _structs(kind.type, seen):
            fields.update(struct.__struct_encode_fields__)
    return frozenset(fields)


def _structs(root: type, seen: set[type]) -> Iterator[Any]:
    """Yield the structs of which a type consists."""
    waiting: list[Any] = [msgspec.inspect.type_info(root)]
    while waiting:
        info = waiting.pop()
        if isinstance(info, msgspec.inspect.StructType):
            if info.cls in seen:
                continue
            seen.add(info.cls)
            yield info.cls
            waiting += [field.type for field in info.fields]
        elif isinstance(info, msgspec.inspect.UnionType):
            waiting += info.types
        elif isinstance(info, msgspec.inspect.DictType):
            waiting.append(info.value_type)
        elif isinstance(info, msgspec.inspect.ListType | msgspec.inspect.VarTupleType):
            waiting.append(info.item_type)
