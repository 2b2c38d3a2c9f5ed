"""The ranges from which Services get ClusterIPs, and the IPAddress object of each address.

The ranges are those of the ServiceCIDR objects; `registry.service_cidrs` sets them when one of these changes. The
families of a cluster, and which is the primary one, follow from the ranges that the server was started with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from random import Random

from bridgehead.apiserver.resource import Companion, JsonObject
from bridgehead.apiserver.resources.shared.address_rules import IPV4, IPV6, family_of

from .service_allocation import AddressRange, address_claim

IP_ADDRESSES = "ipaddresses.networking.k8s.io"
FAMILY_LABEL, MANAGER_LABEL, MANAGER = (
    "ipaddress.kubernetes.io/ip-family",
    "ipaddress.kubernetes.io/managed-by",
    "ipallocator.k8s.io",
)
# Shared by all objects of a family, of which there may be many.
_LABELS = {family: {FAMILY_LABEL: family, MANAGER_LABEL: MANAGER} for family in (IPV4, IPV6)}
# Addresses that are tried in each range before any range is searched completely: a full range costs no more.
_TRIES = 32


class ServiceRanges:
    """The ranges by family. `configured` are those that the server was started with, the primary family first.

    Raises ValueError for malformed ranges.
    """

    def __init__(self, configured: Sequence[str]) -> None:
        ranges = [AddressRange(cidr) for cidr in configured]
        self.configured = tuple(str(one) for one in ranges)
        self.families = tuple(one.family for one in ranges)
        if len(set(self.families)) != len(ranges) or not ranges:
            raise ValueError("Services need one address range, or two of different families")
        self._all = self._ready = tuple(ranges)

    def set(self, ready: Iterable[str], draining: Iterable[str]) -> None:
        """Replace the ranges: those that addresses are allocated from, and those that lose theirs."""
        known = {str(one): one for one in self._all}
        self._ready = tuple(known.get(cidr) or AddressRange(cidr) for cidr in dict.fromkeys(ready))
        others = (known.get(cidr) or AddressRange(cidr) for cidr in dict.fromkeys(draining))
        self._all = (*self._ready, *others)

    @property
    def all(self) -> tuple[AddressRange, ...]:
        """All ranges, also those that are being drained."""
        return self._all

    def choose(self, family: str, is_claimed: Callable[[str], bool], random: Random) -> str | None:
        """Return a free address, or None when all ranges of the family are full."""
        ranges = [one for one in self._ready if one.family == family]
        for tries in (_TRIES, None):
            for one in ranges:
                chosen = one.choose(is_claimed, random, tries)
                if chosen is not None:
                    return chosen
        return None

    def reason_against(self, address: str, family: str, is_claimed: Callable[[str], bool]) -> str:
        """Return the reason why `address` is not available, or "". After Kubernetes' text it names the ranges."""
        ranges = [one for one in self._ready if one.family == family]
        if not any(one.has_room_for(address) for one in ranges):
            choices = " or ".join(map(str, ranges))
            advice = f"choose an address in {choices}" if ranges else f"there is none for {family}"
            return f"the provided network does not match the current range; {advice}"
        return "provided IP is already allocated" if is_claimed(address_claim(address)) else ""


def address_companions(service: JsonObject, addresses: Iterable[str]) -> list[Companion]:
    """Return the IPAddress objects of a Service with these ClusterIPs."""
    metadata = service["metadata"]
    namespace, name = metadata.get("namespace", ""), metadata.get("name", "")
    companions = []
    for claim in map(address_claim, addresses):
        address = claim.removeprefix("clusterip/")
        labels = _LABELS[family_of(address)]
        companions.append(
            Companion(IP_ADDRESSES, address, claim, labels, partial(address_object, address, namespace, name))
        )
    return companions


def address_object(address: str, namespace: str, service: str) -> JsonObject:
    """Return the IPAddress by which a Service holds an address in canonical form."""
    return {
        "kind": "IPAddress",
        "apiVersion": "networking.k8s.io/v1",
        "metadata": {"name": address, "labels": _LABELS[family_of(address)]},
        "spec": {"parentRef": {"resource": "services", "namespace": namespace, "name": service}},
    }
