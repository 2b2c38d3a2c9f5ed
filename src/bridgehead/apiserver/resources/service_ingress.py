"""The addresses of load balancers in a Service: which may be asked for, and which a status may say (pure).

A proxy takes what it finds in `status.loadBalancer` for its own, on every node. So more is refused than Kubernetes
refuses: addresses that would take the node's own traffic, or another Service's (CVE-2020-8554). Addresses of nodes are
refused in `registry.captured`, which can look them up. What is stored already is not read again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from bridgehead.apiserver.resource import FieldError, JsonObject

from . import field
from .addresses import check_ip, check_not_special, parse_ip
from .columns import at
from .service_allocation import AddressRange


class IngressAddress(NamedTuple):
    """`path` is where the Service says it. With `is_vip` packets arrive at the nodes untranslated (KEP-1860)."""

    path: str
    text: str
    is_vip: bool


def added_addresses(service: JsonObject, old: JsonObject | None) -> list[IngressAddress]:
    """What `service` says in its status and `old` did not, as far as it is an address."""
    known = {(one.text, one.is_vip) for one in _addresses(old)} if old is not None else set()
    return [one for one in _addresses(service) if (one.text, one.is_vip) not in known and parse_ip(one.text)]


def _addresses(service: JsonObject) -> Iterable[IngressAddress]:
    for index, one in enumerate(at(service, "status", "loadBalancer", "ingress") or ()):
        if "ip" in one:
            path = f"status.loadBalancer.ingress[{index}].ip"
            yield IngressAddress(path, one["ip"], one.get("ipMode", "VIP") == "VIP")


def check_load_balancer_ip(spec: JsonObject, old_spec: JsonObject | None) -> list[FieldError]:
    """Kubernetes leaves `loadBalancerIP` to the cloud; here, where there is none, it is an address."""
    wanted = spec.get("loadBalancerIP", "")
    if not wanted or (old_spec is not None and old_spec.get("loadBalancerIP") == wanted):
        return []
    return field.invalid_for("spec.loadBalancerIP", wanted, check_ip(wanted))


def check_status_addresses(
    service: JsonObject, old: JsonObject | None, ranges: Iterable[AddressRange]
) -> list[FieldError]:
    errors: list[FieldError] = []
    for path, text, _ in added_addresses(service, old):
        reasons = check_not_special(text)
        address = parse_ip(text)
        if not reasons and address is not None and address.is_multicast:
            reasons.append("may not be a multicast address")
        reasons += [f"may not be in the range of cluster IPs ({one})" for one in ranges if one.contains(text)]
        errors.extend(field.invalid_for(path, text, reasons))
    return errors
