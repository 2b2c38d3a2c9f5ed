"""Values of `fieldRef` and `resourceFieldRef`, for environment variables and downward API volumes.

Pure: no I/O, no clock, no randomness. Source: Kubernetes "Downward API".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import ROUND_CEILING, Decimal

import msgspec

from bridgehead.objects.core import Container, Pod, ResourceFieldSelector
from bridgehead.objects.quantities import parse_quantity

_SUBSCRIPT = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")


class Addresses(msgspec.Struct, frozen=True):
    """Addresses that the kubelet knows before the pod's status has them; the primary one first."""

    pod_ips: tuple[str, ...] = ()
    host_ips: tuple[str, ...] = ()


def field_value(path: str, pod: Pod, addresses: Addresses) -> str:
    """Return the value of a `fieldPath`. Raises ValueError for an unsupported one."""
    meta = pod.metadata
    if found := _SUBSCRIPT.fullmatch(path):
        values = meta.labels if found.group(1) == "labels" else meta.annotations
        return values.get(found.group(2), "")
    match path:
        case "metadata.name":
            return meta.name
        case "metadata.namespace":
            return meta.namespace
        case "metadata.uid":
            return meta.uid
        case "metadata.labels":
            return _format_map(meta.labels)
        case "metadata.annotations":
            return _format_map(meta.annotations)
        case "spec.nodeName":
            return pod.spec.node_name
        case "spec.serviceAccountName":
            return pod.spec.service_account_name
        case "status.hostIP":
            return addresses.host_ips[0] if addresses.host_ips else ""
        case "status.hostIPs":
            return ",".join(addresses.host_ips)
        case "status.podIP":
            return addresses.pod_ips[0] if addresses.pod_ips else ""
        case "status.podIPs":
            return ",".join(addresses.pod_ips)
    raise ValueError(f"unsupported fieldPath: {path}")


def _format_map(values: Mapping[str, str]) -> str:
    return "\n".join(f"{key}={_quote(value)}" for key, value in sorted(values.items()))


def _quote(value: str) -> str:
    """Quote as Go's strconv.Quote does, for the characters that occur in labels and annotations."""
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}
    return '"' + "".join(escapes.get(c, c if c.isprintable() else f"\\u{ord(c):04x}") for c in value) + '"'


def resource_value(
    selector: ResourceFieldSelector, pod: Pod, container: Container, allocatable: Mapping[str, str | int | float]
) -> str:
    """Return the value of a resourceFieldRef. A missing limit is that of the pod as a whole, or the node's allocatable.

    Raises ValueError. Source: kubelet's `defaultPodLimitsForDownwardAPI`.
    """
    kind, _, resource = selector.resource.partition(".")
    if kind not in ("limits", "requests") or not resource:
        raise ValueError(f"unsupported container resource : {selector.resource}")
    limits = container.resources.limits
    if kind == "requests":
        value = container.resources.requests.get(resource, limits.get(resource, 0))
    else:
        whole = pod.spec.resources.limits if pod.spec.resources is not None else {}
        given = (one.get(resource, 0) for one in (limits, whole, allocatable))
        value = next(filter(parse_quantity, given), 0)  # 0 is no limit
    divisor = parse_quantity(selector.divisor or "1") or Decimal(1)
    return str(int((parse_quantity(value) / divisor).to_integral_value(ROUND_CEILING)))
