"""A small cluster in the reader's notation, and questions about it, for the tests of the DNS.

Replies are read with dnslib, so that our own idea of the wire is not what checks it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import dnslib
import msgspec

from bridgehead.dns.answering import Responder, Unresolved
from bridgehead.dns.config import ZoneSettings
from bridgehead.dns.zone import Zone, endpoint_names, endpoints_by_address, extra_records, pod_records, service_records
from bridgehead.objects.core import Namespace, Pod, Service
from bridgehead.objects.endpoint_slices import EndpointSlice
from bridgehead.objects.meta import ObjectKey
from bridgehead.yaml_loader import load_all

TYPES = {"Service": Service, "EndpointSlice": EndpointSlice, "Namespace": Namespace, "Pod": Pod}


def read_objects(text: str) -> list[Any]:
    """YAML documents; the namespace is "default" where none is given."""
    objects = []
    for document in load_all(text):
        kind = document.pop("kind")
        if kind != "Namespace":
            document["metadata"].setdefault("namespace", "default")
        objects.append(msgspec.convert(document, TYPES[kind]))
    return objects


def build_zone(objects: Iterable[Any], settings: ZoneSettings = ZoneSettings()) -> Zone:  # noqa: B008
    zone = Zone(settings, serial=7)
    objects = list(objects)
    slices = [obj for obj in objects if isinstance(obj, EndpointSlice)]
    services = {obj.key: obj for obj in objects if isinstance(obj, Service)}
    zone.find_extra = lambda key: extra_records(services[key], slices_of(key, slices), settings.domain)
    by_address = {slice_.key: endpoints_by_address(slice_) for slice_ in slices}
    zone.find_reverse = lambda address: endpoint_names(
        [s for s in slices if s.service_key in services],
        address,
        settings.domain,
        endpoints_of=lambda slice_: by_address[slice_.key],
    )
    for obj in objects:
        match obj:
            case Service():
                zone.set_service(obj.key, service_records(obj, slices_of(obj.key, slices), settings.domain))
            case Namespace():
                zone.set_namespace(obj.metadata.name, True)
            case Pod():
                zone.set_pod(obj.key, pod_records(obj, settings.domain))
    return zone


def slices_of(key: ObjectKey, slices: Iterable[EndpointSlice]) -> list[EndpointSlice]:
    return [s for s in slices if s.service_key == key]


def ready(zone: Zone, **options: Any) -> Responder:
    responder = Responder(zone, **options)
    responder.set_ready()
    return responder


def packet(name: str, kind: str = "A", **options: Any) -> bytes:
    """A query as a resolver library sends it; `edns` is a size."""
    edns = options.pop("edns", 0)
    query = dnslib.DNSRecord.question(name, kind)
    query.header.id = options.pop("id", 0x1234)
    query.header.rd = options.pop("rd", 1)
    query.header.ad = options.pop("ad", 0)
    if edns:
        query.add_ar(dnslib.EDNS0(udp_len=edns, **options))
    return bytes(query.pack())


def ask(responder: Responder, name: str, kind: str = "A", *, udp: bool = True, **options: Any) -> dnslib.DNSRecord:
    return dnslib.DNSRecord.parse(reply_to(responder, packet(name, kind, **options), udp=udp))


def reply_to(responder: Responder, query: bytes, *, udp: bool = True) -> bytes:
    """The reply of the zone; TypeError when it has none."""
    reply = responder.respond_untrusted(query, is_udp=udp)
    if not isinstance(reply, bytes):
        raise TypeError(f"no answer of the zone but {reply}")
    return reply


def unresolved(responder: Responder, query: bytes, *, udp: bool = True) -> Unresolved:
    """The question that the responder leaves to the resolver."""
    found = responder.respond_untrusted(query, is_udp=udp)
    assert isinstance(found, Unresolved)
    return found


async def never_resolve(question: Unresolved, client: str) -> bytes:
    """The resolver of a server that is asked only for names of its zone."""
    raise AssertionError(f"not of the zone: {question}")


def lines(records: Iterable[dnslib.RR]) -> list[str]:
    """ "name ttl type data", sorted."""
    return sorted(f"{rr.rname!s} {rr.ttl} {dnslib.QTYPE[rr.rtype]} {rr.rdata}" for rr in records)
