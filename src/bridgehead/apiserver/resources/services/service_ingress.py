"""Validation of load balancer addresses in a Service's spec and status.

Every proxy accepts traffic for the addresses in `status.loadBalancer`, on every node. This check is therefore stricter
than Kubernetes: addresses that would capture a node's own traffic or another Service's are refused (CVE-2020-8554).
`admission.node_addresses` refuses addresses of nodes, for which it needs the store. Addresses that are already stored
are not checked again. Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared.address_rules import check_ip, check_not_special, parse_ip

from .service_allocation import AddressRange


class IngressAddress(NamedTuple):
    """An address in a status. With `is_vip`, packets arrive at the nodes untranslated (KEP-1860)."""

    ip: Field
    is_vip: bool


def added_addresses(service: Field, old: JsonObject) -> list[IngressAddress]:
    """Return the valid addresses in the status of `service` that are not in the status of `old`."""
    known = {(ip.value, is_vip) for ip, is_vip in _addresses(Field(old))}
    return [
        one for one in _addresses(service) if (one.ip.value, one.is_vip) not in known and not check_ip(one.ip.value)
    ]


def _addresses(service: Field) -> Iterator[IngressAddress]:
    for ingress in service.at("status").at("loadBalancer").at("ingress").each():
        if "ip" in ingress.value:
            yield IngressAddress(ingress.at("ip"), ingress.get("ipMode", "VIP") == "VIP")


def validate_load_balancer_ip(spec: Field, old: JsonObject) -> None:
    """Validate that `loadBalancerIP` is an address. Kubernetes leaves this check to the cloud provider."""
    wanted = spec.at("loadBalancerIP")
    if wanted and wanted.value != old.get("loadBalancerIP"):
        wanted.must_pass(check_ip)


def validate_status_addresses(service: Field, old: JsonObject, ranges: Sequence[AddressRange]) -> None:
    def check(text: str) -> list[str]:
        reasons = check_not_special(text)
        address = parse_ip(text)
        if not reasons and address is not None and address.is_multicast:
            reasons.append("may not be a multicast address")
        return reasons + [f"may not be in the range of cluster IPs ({one})" for one in ranges if one.contains(text)]

    for ip, _ in added_addresses(service, old):
        ip.must_pass(check)
