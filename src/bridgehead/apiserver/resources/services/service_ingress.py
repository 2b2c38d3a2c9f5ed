"""Validation of load balancer addresses in a Service's spec and status.

Every proxy accepts traffic for the addresses in `status.loadBalancer`, on every node. So this is stricter than
Kubernetes: addresses that would capture a node's own traffic or another Service's are refused (CVE-2020-8554).
`admission.node_addresses` refuses addresses of nodes, for which it needs the store. Addresses that are already stored
are not checked again. Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared import field
from bridgehead.apiserver.resources.shared.addresses import check_ip, check_not_special, parse_ip
from bridgehead.apiserver.resources.shared.columns import at

from .service_allocation import AddressRange


class IngressAddress(NamedTuple):
    """An address in a status, at `path`. With `is_vip`, packets arrive at the nodes untranslated (KEP-1860)."""

    path: str
    text: str
    is_vip: bool


def added_addresses(service: JsonObject, old: JsonObject | None) -> list[IngressAddress]:
    """Return the valid addresses in the status of `service` that are not in the status of `old`."""
    known = {(one.text, one.is_vip) for one in _addresses(old)} if old is not None else set()
    return [one for one in _addresses(service) if (one.text, one.is_vip) not in known and not check_ip(one.text)]


def _addresses(service: JsonObject) -> Iterable[IngressAddress]:
    for index, one in enumerate(at(service, "status", "loadBalancer", "ingress") or ()):
        if "ip" in one:
            path = f"status.loadBalancer.ingress[{index}].ip"
            yield IngressAddress(path, one["ip"], one.get("ipMode", "VIP") == "VIP")


def check_load_balancer_ip(spec: JsonObject, old_spec: JsonObject | None) -> list[FieldError]:
    """Check that `loadBalancerIP` is an address. Kubernetes leaves this check to the cloud provider."""
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
