"""discovery.k8s.io/v1beta1 EndpointSlices, of Kubernetes 1.17 to 1.24, in the form of v1.

Pure: no I/O, no clock, no randomness. Source: `pkg/apis/discovery/v1beta1/conversion.go`.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from bridgehead.objects.endpoint_slices import EndpointSlice
from bridgehead.objects.kinds import ENDPOINT_SLICES

Json = dict[str, Any]

API_VERSION: Final = "discovery.k8s.io/v1beta1"

_NODE: Final = "kubernetes.io/hostname"
_ZONE: Final = "topology.kubernetes.io/zone"


def path(namespace: str) -> str:
    """Return the URL path of the collection; "": of all namespaces."""
    return f"/apis/{API_VERSION}/{f'namespaces/{namespace}/' if namespace else ''}endpointslices"


def convert(item: Json) -> EndpointSlice | None:
    """Return a slice of v1beta1, as the API sent it; None for an invalid one."""
    try:
        return msgspec.convert(_without_nulls(to_v1(item)), EndpointSlice)
    except msgspec.ValidationError:
        return None


def to_v1(item: Json) -> Json:
    """Return a slice of v1beta1 as one of v1: the node and the zone are in `topology` there."""
    endpoints = item.get("endpoints")
    found = [_endpoint(each) for each in endpoints if isinstance(each, dict)] if isinstance(endpoints, list) else []
    return {**item, "apiVersion": ENDPOINT_SLICES.api_version, "endpoints": found}


def _endpoint(old: Json) -> Json:
    topology = old.get("topology")
    rest = dict(topology) if isinstance(topology, dict) else {}
    found = {name: value for name, value in old.items() if name != "topology"}
    for name, label in (("nodeName", _NODE), ("zone", _ZONE)):
        value = rest.pop(label, None)
        if value and not found.get(name):
            found[name] = value
    return {**found, "deprecatedTopology": rest} if rest else found


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(each) for name, each in value.items() if each is not None}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value
