"""Services, EndpointSlices and Pods as DNS names and their record sets: the Kubernetes DNS specification 1.1.0.

`agent.py` calls this for every object that changed, and `zone.py` compiles what comes out to finished answers. Names
are lower-case, absolute, without the last dot. An empty record set says that a name exists and has no records of its
own ("empty non-terminal": NODATA, not NXDOMAIN).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from bridgehead.objects.core import Pod, Service
from bridgehead.objects.discovery import Endpoint, EndpointSlice

SPEC_VERSION = "1.1.0"
LONGEST_NAME = 253  # as text, without the last dot
_PORTS = range(65536)
FAMILIES = {"IPv4": "A", "IPv6": "AAAA"}


class Srv(NamedTuple):
    priority: int
    weight: int
    port: int
    target: str


class Soa(NamedTuple):
    """Of the zone itself; times in seconds."""

    mname: str
    rname: str
    serial: int
    refresh: int = 7200
    retry: int = 1800
    expire: int = 86400
    minimum: int = 0


# What a record holds: an address, a name or a text as it is, SRV and SOA taken apart.
Data = str | Srv | Soa
# Record type ("A", "SRV", ...) -> its records.
RecordSets = Mapping[str, tuple[Data, ...]]


@dataclass(frozen=True)
class ServiceRecords:
    """What one Service gives: names with their record sets, and for addresses the names a PTR query finds."""

    names: Mapping[str, RecordSets] = field(default_factory=dict)
    reverse: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


def service_records(
    service: Service, slices: Iterable[EndpointSlice], domain: str, *, by_pod: bool = False
) -> ServiceRecords:
    """The records of a Service in the zone `domain`; `slices` are those of this Service, in any order.

    `by_pod`: endpoints without a host name are called as their pods are, not by their addresses.
    """
    name = f"{service.metadata.name}.{service.metadata.namespace}.svc.{domain}"
    if not is_name(name):
        return ServiceRecords(problems=(f"{name} is too long for a name",))
    if service.spec.type == "ExternalName":
        return _external_name(service, name)
    if service.spec.cluster_ip == "None":
        return _headless(service, slices, name, by_pod=by_pod)
    return _cluster_ip(service, name)


def more_records(
    service: Service, slices: Iterable[EndpointSlice], domain: str, *, by_pod: bool = False
) -> dict[str, RecordSets]:
    """What the specification does not know and CoreDNS has: at a Service's own name SRV records of all its ports, and
    names of the endpoints of a Service that has a cluster IP. With the addresses of the targets."""
    name = f"{service.metadata.name}.{service.metadata.namespace}.svc.{domain}"
    if not is_name(name) or service.spec.type == "ExternalName":
        return {}
    found = _gather(service, slices, name, by_pod=by_pod)
    names = {host: _frozen(sets) for host, sets in found.by_host.items()}
    if service.spec.cluster_ip == "None":
        names[name] = {"SRV": tuple(found.srv(found.ports))}
    elif own := address_sets(service.spec.cluster_ips or (service.spec.cluster_ip,)):
        numbers = dict.fromkeys(port.port for port in service.spec.ports if port.port in _PORTS)
        names[name] = own | {"SRV": tuple(Srv(0, max(1, 100 // len(numbers)), number, name) for number in numbers)}
    return names


def zone_records(domain: str, serial: int, negative_ttl: int, name_server: Iterable[str] = ()) -> dict[str, RecordSets]:
    """The names of the zone itself; `name_server` are the addresses under which clients reach us."""
    server = f"ns.dns.{domain}"
    soa = Soa(server, f"hostmaster.{domain}", serial, minimum=negative_ttl)
    return {
        domain: {"SOA": (soa,), "NS": (server,)},
        f"dns.{domain}": {},
        server: address_sets(name_server),
        f"dns-version.{domain}": {"TXT": (SPEC_VERSION,)},
        f"svc.{domain}": {},
    }


def pod_records(pod: Pod, domain: str) -> dict[str, RecordSets]:
    """The names of a pod by its addresses (`pods verified`): 10-244-1-2.default.pod.cluster.local."""
    if pod.is_finished:
        return {}
    names: dict[str, RecordSets] = {}
    for ip in {pod.status.pod_ip, *(entry.ip for entry in pod.status.pod_ips)} - {""}:
        sets = address_sets((ip,))
        if sets:
            names[f"{dashed(ip)}.{pod.metadata.namespace}.pod.{domain}"] = sets
    return names


def address_of_pod_label(label: str) -> str | None:
    """The address that a pod name's first label spells, in its canonical form; None if it spells none."""
    text = label.replace("-", ".") if label.count("-") == 3 and "--" not in label else label.replace("-", ":")
    return _canonical(text)


def dashed(address: str) -> str:
    """10.244.1.2 -> 10-244-1-2, fd00::1 -> fd00--1: the label of something that has no name but its address."""
    return address.replace(".", "-").replace(":", "-")


def reverse_name(address: str) -> str:
    """10.96.0.1 -> 1.0.96.10.in-addr.arpa, and nibble by nibble for IPv6."""
    return ipaddress.ip_address(address).reverse_pointer


def address_sets(addresses: Iterable[str]) -> dict[str, tuple[Data, ...]]:
    """A and AAAA sets of these addresses, each address once; what is no address is left out."""
    sets: dict[str, dict[Data, None]] = {}
    for text in addresses:
        address = _canonical(text)
        if address is not None:
            sets.setdefault("AAAA" if ":" in address else "A", {})[address] = None
    return {kind: tuple(values) for kind, values in sets.items()}


def as_domain(text: str) -> str:
    """A name that somebody wrote, as names are here; "" is the root."""
    return text.rstrip(".").lower()


def is_within(name: str, domain: str) -> bool:
    """Whether the name is the domain's own, or below it. All are below the root."""
    return not domain or f".{name}".endswith(f".{domain}")


def is_name(text: str) -> bool:
    """Whether this can be put on the wire (RFC 1035, section 3.1): labels of 1 to 63 bytes, 255 in all."""
    if not text or not text.isascii() or len(text) > LONGEST_NAME:
        return False
    return all(0 < len(label) <= 63 for label in text.split("."))


def _is_label(text: str | None) -> bool:
    return text is not None and is_name(text) and "." not in text


@lru_cache(maxsize=16384)
def _canonical(text: str) -> str | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    return None if getattr(address, "scope_id", None) else str(address)


def _cluster_ip(service: Service, name: str) -> ServiceRecords:
    ips = service.spec.cluster_ips or (service.spec.cluster_ip,)
    sets = address_sets(ips)
    if not sets:
        return ServiceRecords()  # not allocated yet
    names: dict[str, RecordSets] = {name: sets}
    found: dict[str, dict[Srv, None]] = {}
    for port in service.spec.ports:
        if port.name:
            owner = f"_{port.name.lower()}._{port.protocol.lower()}"
            found.setdefault(owner, {})[Srv(0, 100, port.port, name)] = None
    _add_srv(names, name, found)
    reverse = {str(address): (name,) for addresses in sets.values() for address in addresses}
    return ServiceRecords(names, reverse)


def _external_name(service: Service, name: str) -> ServiceRecords:
    target = as_domain(service.spec.external_name)
    if not is_name(target):
        return ServiceRecords({name: {}}, problems=(f"externalName {service.spec.external_name!r} is not a name",))
    if address_sets((target,)):  # CoreDNS does the same: what looks like an address is answered as one
        return ServiceRecords({name: address_sets((target,))})
    return ServiceRecords({name: {"CNAME": (target,)}})


class _Endpoints(NamedTuple):
    """What can be told of the endpoints of a Service: by family, by name, by port ("" is one without a name)."""

    addresses: Mapping[str, Mapping[Data, None]]
    by_host: Mapping[str, Mapping[str, Mapping[Data, None]]]
    ports: Mapping[str, Mapping[tuple[int, str], None]]
    reverse: Mapping[str, Mapping[str, None]]
    problems: tuple[str, ...]

    def srv(self, owners: Iterable[str]) -> dict[Srv, None]:
        targets = {target: None for owner in owners for target in self.ports[owner]}
        return {Srv(0, max(1, 100 // len(targets)), port, target): None for port, target in targets}


def _gather(service: Service, slices: Iterable[EndpointSlice], name: str, *, by_pod: bool) -> _Endpoints:
    addresses: dict[str, dict[Data, None]] = {}
    by_host: dict[str, dict[str, dict[Data, None]]] = {}
    ports: dict[str, dict[tuple[int, str], None]] = {}
    reverse: dict[str, dict[str, None]] = {}
    problems = []
    longest = LONGEST_NAME - len(name) - 1  # of a label before a name that is sound
    last: EndpointSlice | None = None
    for slice_, endpoint in _usable(service, slices):
        if slice_ is not last:  # they come slice by slice, and there may be thousands of them
            last, kind, slice_ports = slice_, FAMILIES[slice_.address_type], _ports(slice_)
        for text in endpoint.addresses:
            address = _canonical(text)
            if address is None or (":" in address) != (kind == "AAAA"):
                problems.append(f"EndpointSlice {slice_.metadata.name}: {text!r} is no {slice_.address_type} address")
                continue
            label = _endpoint_label(endpoint, address, by_pod=by_pod)
            target = f"{label}.{name}"
            if len(label) > longest:
                problems.append(f"{target} is too long for a name")
                continue
            addresses.setdefault(kind, {})[address] = None
            by_host.setdefault(target, {}).setdefault(kind, {})[address] = None
            reverse.setdefault(address, {})[target] = None
            for owner, port in slice_ports:
                ports.setdefault(owner, {})[port, target] = None
    return _Endpoints(addresses, by_host, ports, reverse, tuple(problems))


def _headless(service: Service, slices: Iterable[EndpointSlice], name: str, *, by_pod: bool) -> ServiceRecords:
    found = _gather(service, slices, name, by_pod=by_pod)
    names: dict[str, RecordSets] = {name: _frozen(found.addresses)}
    names.update((host, _frozen(sets)) for host, sets in found.by_host.items())
    _add_srv(names, name, {owner: found.srv([owner]) for owner in found.ports if owner})
    reverse = {address: tuple(hosts) for address, hosts in found.reverse.items()}
    return ServiceRecords(names, reverse, found.problems)


def _endpoint_label(endpoint: Endpoint, address: str, *, by_pod: bool) -> str:
    name = endpoint.hostname
    if not name and by_pod and endpoint.target_ref is not None:
        name = endpoint.target_ref.name
    return name.lower() if name and _is_label(name) else dashed(address)


def _ports(slice_: EndpointSlice) -> list[tuple[str, int]]:
    """_http._tcp and its number; "" for one without a name."""
    return [
        (f"_{port.name.lower()}._{(port.protocol or 'TCP').lower()}" if port.name else "", port.port)
        for port in slice_.ports or ()
        if port.port is not None and port.port in _PORTS and (not port.name or _is_label(port.name))
    ]


def _usable(service: Service, slices: Iterable[EndpointSlice]) -> list[tuple[EndpointSlice, Endpoint]]:
    """The endpoints to be told of, as the proxy picks them: the ready ones, and where a family has none of those,
    the ones that still serve while they terminate."""
    ready: dict[str, list[tuple[EndpointSlice, Endpoint]]] = {family: [] for family in FAMILIES}
    draining: dict[str, list[tuple[EndpointSlice, Endpoint]]] = {family: [] for family in FAMILIES}
    for slice_ in sorted(slices, key=lambda slice_: slice_.metadata.name):
        if slice_.address_type not in FAMILIES:
            continue  # FQDN: deprecated, and defined for nobody
        for endpoint in slice_.endpoints:
            conditions = endpoint.conditions
            if conditions.is_ready or service.spec.publish_not_ready_addresses:
                ready[slice_.address_type].append((slice_, endpoint))
            elif conditions.is_draining:
                draining[slice_.address_type].append((slice_, endpoint))
    return [pair for family in FAMILIES for pair in ready[family] or draining[family]]


def _add_srv(names: dict[str, RecordSets], name: str, found: Mapping[str, Mapping[Srv, None]]) -> None:
    """SRV sets under `name`, and the protocol labels above them, which exist by having names below."""
    for owner, records in found.items():
        protocol = owner.partition(".")[2]
        names.setdefault(f"{protocol}.{name}", {})
        names[f"{owner}.{name}"] = {"SRV": tuple(records)}


def _frozen(sets: Mapping[str, Mapping[Data, None]]) -> RecordSets:
    return {kind: tuple(values) for kind, values in sets.items()}
