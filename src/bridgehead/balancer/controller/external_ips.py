"""Events about externalIPs that pools contain: pools give their addresses to Services of type LoadBalancer.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from bridgehead.balancer.allocation import Note
from bridgehead.balancer.compiled_configuration import Configuration
from bridgehead.balancer.speaker.announced_services import external_ips_in_pools
from bridgehead.objects.address_holders import (
    assigned_addresses,
    by_assigned_address,
    external_addresses,
    holder_of,
)
from bridgehead.objects.core import Service

_MOST_NAMED: Final = 3  # addresses and ports that one Event names


def note_unannounced(service: Service, configuration: Configuration, holders: Sequence[Service]) -> Note | None:
    """Return the Event about a Service whose externalIPs no node announces; None without such ones.

    `holders`: the other Services that have one of them in their status.
    """
    own, by_status = assigned_addresses(service), by_assigned_address(holders)
    refused: dict[str, list[str]] = {}  # addresses by the reason
    for address, pool in external_ips_in_pools(service, configuration):
        text = str(address)
        given = by_status.get(text, ())
        holder = holder_of(text, service, given)
        if text in own or (given and holder is None):  # it is announced for the Service that shares it
            continue
        if not pool.is_for_external_ips:
            refused.setdefault(f'of pool "{pool.name}", which gives them to Services of type LoadBalancer', []).append(
                text
            )
        elif holder is not None:
            refused.setdefault(f'of pool "{pool.name}", which gave them to Service {holder.key}', []).append(text)
    if not refused:
        return None
    parts = [f"{_names(texts)} {why}" for why, texts in list(refused.items())[:_MOST_NAMED]]
    advice = (
        "use type LoadBalancer (metallb.io/loadBalancerIPs names an address), addresses that no pool contains, "
        "or those of a pool with autoAssign: false or an Eip that is not the default"
    )
    message = f"no node announces these externalIPs: {'; '.join(parts)}; {advice}"
    return Note("ExternalIPNotAnnounced", message, "Warning")


def note_clash(service: Service, others: Iterable[Service]) -> Note | None:
    """Return the Event about a Service whose address and port an older one lists in externalIPs; None without one.

    The address stays with the Service. That the older one does not get it any more is worth an Event, because it did
    as long as the address was nobody's.
    """
    own = assigned_addresses(service)
    ports = {(port.protocol, port.port) for port in service.spec.ports}
    clashes = [
        f"port {protocol}/{number} of {address} is listed by Service {other.key}"
        for other in sorted(others, key=_age)
        if other.key != service.key and _age(other) < _age(service)
        for address in external_addresses(other)
        if address in own
        for protocol, number in sorted(ports & {(port.protocol, port.port) for port in other.spec.ports})
    ]
    if not clashes:
        return None
    message = (
        f"the address stays with this Service, though an older one has it in externalIPs: {_names(clashes, '; ')}; "
        "remove it there"
    )
    return Note("ExternalIPClash", message, "Warning")


def _names(texts: Sequence[str], separator: str = ", ") -> str:
    more = f" and {len(texts) - _MOST_NAMED} more" if len(texts) > _MOST_NAMED else ""
    return separator.join(texts[:_MOST_NAMED]) + more


def _age(service: Service) -> tuple[str, str]:
    return service.metadata.creation_timestamp or "~", str(service.key)
