"""Facts about Go's structs that the published definitions do not have, for the ownership of fields.

Pure: no I/O, no clock, no randomness. Source: the types.go files of k8s.io/api.
"""

from __future__ import annotations

from collections.abc import Iterable

_API = "io.k8s.api."

# Defaults of key fields. The published definitions do not have them.
_KEY_DEFAULTS: dict[str, dict[str, str]] = {
    f"{_API}core.v1.ContainerPort": {"protocol": "TCP"},
    f"{_API}core.v1.ServicePort": {"protocol": "TCP"},
}

# Fields by value that Go does not omit, beside metadata, spec, status and those that are required.
_BY_VALUE = {
    f"{_API}apps.v1.DaemonSetSpec": ("updateStrategy",),
    f"{_API}apps.v1.DeploymentSpec": ("strategy",),
    f"{_API}apps.v1.ReplicaSetSpec": ("template",),
    f"{_API}apps.v1.StatefulSetSpec": ("serviceName", "updateStrategy"),
    f"{_API}apps.v1.StatefulSetStatus": ("availableReplicas",),
    f"{_API}core.v1.Container": ("resources",),
    f"{_API}core.v1.ContainerStatus": ("lastState", "state"),
    f"{_API}core.v1.EphemeralContainer": ("resources",),
    f"{_API}core.v1.Event": ("reportingComponent", "reportingInstance", "source"),
    f"{_API}core.v1.NodeDaemonEndpoints": ("kubeletEndpoint",),
    f"{_API}core.v1.NodeStatus": ("daemonEndpoints", "nodeInfo"),
    f"{_API}core.v1.PersistentVolumeClaimSpec": ("resources",),
    f"{_API}core.v1.PodTemplate": ("template",),
    f"{_API}core.v1.ServiceStatus": ("loadBalancer",),
    f"{_API}discovery.v1.Endpoint": ("conditions",),
    f"{_API}networking.v1.IngressServiceBackend": ("port",),
    f"{_API}networking.v1.IngressStatus": ("loadBalancer",),
    f"{_API}networking.v1.NetworkPolicySpec": ("podSelector",),
    f"{_API}resource.v1.AllocationResult": ("devices",),
    f"{_API}resource.v1.ResourceClaimSpec": ("devices",),
}
_ALWAYS_BY_VALUE = frozenset({"metadata", "spec", "status"})
# Required fields that are pointers to a struct with fields of its own.
_POINTERS = {f"{_API}networking.v1.IPAddressSpec": ("parentRef",)}


def zeroed_fields(definition: str, required: Iterable[str]) -> frozenset[str]:
    """Return fields that Go's zero value of a definition contains, if the definition has them."""
    pointers, by_value = _POINTERS.get(definition, ()), _BY_VALUE.get(definition, ())
    return _ALWAYS_BY_VALUE.union(required).difference(pointers).union(by_value)


def key_default(definition: str, key: str) -> str | None:
    """Return the value of a key field that an element of a list leaves out; None for a field without a default."""
    return _KEY_DEFAULTS.get(definition, {}).get(key)
