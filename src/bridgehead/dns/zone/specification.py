"""Services, EndpointSlices and Pods as DNS names and their record sets: the Kubernetes DNS specification 1.1.0.

Pure: no I/O, no clock, no randomness.

`zone_sync.py` calls this for every changed object, and `finished_answers.py` compiles the result. Names are lower-case,
absolute, without the last dot. A name with an empty record set exists without records: an empty non-terminal, for which
the answer is NODATA, not NXDOMAIN.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from bridgehead.dns.messages.domain_names import LONGEST_NAME, as_domain, dashed, is_label, is_name
from bridgehead.dns.messages.record_sets import Data, RecordSets, Soa, Srv, address_sets, canonical_address
from bridgehead.objects.core import Pod, Service
from bridgehead.objects.endpoint_slices import Endpoint, EndpointSlice

SPEC_VERSION = "1.1.0"
_PORTS = range(65536)
FAMILIES = {"IPv4": "A", "IPv6": "AAAA"}


@dataclass(frozen=True)
class ServiceRecords:
    """The records of one Service: record sets by name, names by address (PTR), and warnings about its objects."""

    names: Mapping[str, RecordSets] = field(default_factory=dict)
    reverse: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


def service_records(
    service: Service, slices: Iterable[EndpointSlice], domain: str, *, by_pod: bool = False
) -> ServiceRecords:
    """Return the records of a Service in the zone `domain`; `slices` are its EndpointSlices, in any order.

    `by_pod`: endpoints without a host name are named after their pods, not their addresses.
    """
    name = f"{service.metadata.name}.{service.metadata.namespace}.svc.{domain}"
    if not is_name(name):
        return ServiceRecords(problems=(f"{name} is too long for a name",))
    if service.spec.type == "ExternalName":
        return _external_name(service, name)
    if service.spec.cluster_ip == "None":
        return _headless(service, slices, name, by_pod=by_pod)
    return _cluster_ip(service, name)


def extra_records(
    service: Service, slices: Iterable[EndpointSlice], domain: str, *, by_pod: bool = False
) -> dict[str, RecordSets]:
    """Return record sets that CoreDNS has beyond the specification.

    They are SRV records of all ports at the Service's own name and at the names of its endpoints, and names of the
    endpoints of a Service with a cluster IP. The addresses of SRV targets are included.
    """
    name = f"{service.metadata.name}.{service.metadata.namespace}.svc.{domain}"
    if not is_name(name) or service.spec.type == "ExternalName":
        return {}
    found = _gather(service, slices, name, by_pod=by_pod)
    targets: dict[str, dict[Srv, None]] = {}
    for record in found.srv(found.ports):
        targets.setdefault(record.target, {})[record] = None
    names: dict[str, RecordSets] = {
        host: {**_frozen(sets), **_spread(targets.get(host, ()))} for host, sets in found.by_host.items()
    }
    if service.spec.cluster_ip == "None":
        names[name] = {"SRV": tuple(found.srv(found.ports))}
    elif own := address_sets(service.spec.cluster_ips or (service.spec.cluster_ip,)):
        numbers = dict.fromkeys(port.port for port in service.spec.ports if port.port in _PORTS)
        names[name] = own | {"SRV": tuple(Srv(0, max(1, 100 // len(numbers)), number, name) for number in numbers)}
    return names


def _spread(records: Iterable[Srv]) -> dict[str, tuple[Data, ...]]:
    """Return the SRV set of these records, with equal weights."""
    ports = dict.fromkeys(record._replace(weight=0) for record in records)
    return {"SRV": tuple(record._replace(weight=max(1, 100 // len(ports))) for record in ports)} if ports else {}


def endpoints_by_address(slice_: EndpointSlice) -> dict[str, list[Endpoint]]:
    """Return the ready endpoints of a slice by each of their addresses."""
    found: dict[str, list[Endpoint]] = {}
    for endpoint in slice_.endpoints:
        for text in endpoint.addresses if endpoint.conditions.is_ready else ():
            if (address := canonical_address(text)) is not None:
                found.setdefault(address, []).append(endpoint)
    return found


def endpoint_names(
    slices: Iterable[EndpointSlice],
    address: str,
    domain: str,
    *,
    by_pod: bool = False,
    endpoints_of: Callable[[EndpointSlice], Mapping[str, Iterable[Endpoint]]] = endpoints_by_address,
) -> list[str]:
    """Return the names of ready endpoints with this address, for its PTR records, as CoreDNS has them.

    The specification has them for headless Services only. `endpoints_of` may keep what `endpoints_by_address` returns:
    one slice is asked for each of its addresses.
    """
    names: dict[str, None] = {}
    for slice_ in sorted(slices, key=lambda slice_: (slice_.metadata.namespace, slice_.metadata.name)):
        if (key := slice_.service_key) is None:
            continue
        for endpoint in endpoints_of(slice_).get(address, ()):
            name = f"{_endpoint_label(endpoint, address, by_pod=by_pod)}.{key.name}.{key.namespace}.svc.{domain}"
            if is_name(name):
                names[name] = None
    return list(names)


def index_by_address(slice_: EndpointSlice) -> Iterable[str]:
    """Return the addresses of a slice's endpoints, for an index."""
    if slice_.address_type not in FAMILIES:
        return ()
    found = (canonical_address(text) for endpoint in slice_.endpoints for text in endpoint.addresses)
    return {address for address in found if address is not None}


def zone_records(domain: str, serial: int, negative_ttl: int, name_server: Iterable[str] = ()) -> dict[str, RecordSets]:
    """Return the names of the zone itself; `name_server` are the addresses of this server's Service."""
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
    """Return the names of a pod, by its addresses (`pods verified`): 10-244-1-2.default.pod.cluster.local."""
    if pod.is_finished:
        return {}
    names: dict[str, RecordSets] = {}
    for ip in {pod.status.pod_ip, *(entry.ip for entry in pod.status.pod_ips)} - {""}:
        sets = address_sets((ip,))
        if sets:
            names[f"{dashed(ip)}.{pod.metadata.namespace}.pod.{domain}"] = sets
    return names


def address_of_pod_label(label: str) -> str | None:
    """Return the address that the first label of a pod's name spells, in canonical form; None if it is none."""
    text = label.replace("-", ".") if label.count("-") == 3 and "--" not in label else label.replace("-", ":")
    return canonical_address(text)


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
    if canonical_address(service.spec.external_name) is not None:  # as CoreDNS: an address is no target of a CNAME
        return ServiceRecords(problems=(f"externalName {target} is an address, for which there are no records",))
    if not is_name(target):
        return ServiceRecords({name: {}}, problems=(f"externalName {service.spec.external_name!r} is not a name",))
    return ServiceRecords({name: {"CNAME": (target,)}})


class _Endpoints(NamedTuple):
    """The endpoints of a Service by record type, by name, and by port ("" is a port without a name)."""

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
    longest = LONGEST_NAME - len(name) - 1  # of a label below the Service's name
    last: EndpointSlice | None = None
    for slice_, endpoint in _usable(service, slices):
        if slice_ is not last:  # thousands of endpoints come slice by slice
            last, kind, slice_ports = slice_, FAMILIES[slice_.address_type], _ports(slice_)
        for text in endpoint.addresses:
            address = canonical_address(text)
            if address is None or (":" in address) != (kind == "AAAA"):
                problems.append(
                    f"EndpointSlice {slice_.metadata.name}: {text!r} is not an {slice_.address_type} address"
                )
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
    return name.lower() if name and is_label(name) else dashed(address)


def _ports(slice_: EndpointSlice) -> list[tuple[str, int]]:
    """Return pairs like ("_http._tcp", 80); "" for a port without a name."""
    ports = []
    for port in slice_.ports or ():
        name, protocol = port.key
        if port.port is not None and port.port in _PORTS and (not name or is_label(name)):
            ports.append((f"_{name.lower()}._{protocol.lower()}" if name else "", port.port))
    return ports


def _usable(service: Service, slices: Iterable[EndpointSlice]) -> list[tuple[EndpointSlice, Endpoint]]:
    """Return the endpoints that have records, as the proxy chooses them.

    They are the ready ones; in a family without a ready one, those that are serving and terminating.
    """
    ready: dict[str, list[tuple[EndpointSlice, Endpoint]]] = {family: [] for family in FAMILIES}
    draining: dict[str, list[tuple[EndpointSlice, Endpoint]]] = {family: [] for family in FAMILIES}
    for slice_ in sorted(slices, key=lambda slice_: slice_.metadata.name):
        if slice_.address_type not in FAMILIES:
            continue  # FQDN: deprecated, without a defined meaning
        for endpoint in slice_.endpoints:
            conditions = endpoint.conditions
            if conditions.is_ready or service.spec.publish_not_ready_addresses:
                ready[slice_.address_type].append((slice_, endpoint))
            elif conditions.is_draining:
                draining[slice_.address_type].append((slice_, endpoint))
    return [pair for family in FAMILIES for pair in ready[family] or draining[family]]


def _add_srv(names: dict[str, RecordSets], name: str, found: Mapping[str, Mapping[Srv, None]]) -> None:
    """Add SRV sets below `name`, and the protocol labels between, which are empty non-terminals."""
    for owner, records in found.items():
        protocol = owner.partition(".")[2]
        names.setdefault(f"{protocol}.{name}", {})
        names[f"{owner}.{name}"] = {"SRV": tuple(records)}


def _frozen(sets: Mapping[str, Mapping[Data, None]]) -> RecordSets:
    return {kind: tuple(values) for kind, values in sets.items()}
