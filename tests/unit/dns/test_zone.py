"""A zone that followed any history answers as one that was made from what there is at its end."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.dns.config import ZoneSettings
from bridgehead.dns.zone import ServiceRecords, Zone, service_records, zone_file
from bridgehead.dns.zone import finished_answers as zone_module
from bridgehead.objects.core import Service
from bridgehead.objects.endpoint_slices import EndpointSlice
from bridgehead.objects.meta import ObjectKey
from tests.unit.dns.world import ask, build_zone, lines, packet, read_objects, ready

NAMES = ("a", "b", "svc")
NAMESPACES = ("default", "svc")
FLAGS = st.sampled_from([None, True, False])


@st.composite
def services(draw: st.DrawFn) -> tuple[ObjectKey, Service, list[EndpointSlice]]:
    key = ObjectKey(draw(st.sampled_from(NAMESPACES)), draw(st.sampled_from(NAMES)))
    shape = draw(st.sampled_from(["ClusterIP", "None", "ExternalName"]))
    address = f"10.96.{NAMESPACES.index(key.namespace)}.{NAMES.index(key.name)}"
    ports = [{"name": name, "port": draw(st.integers(1, 3))} for name in draw(st.sets(st.sampled_from(["x", "y"])))]
    spec: dict[str, Any] = {"ports": ports, "clusterIP": "None" if shape == "None" else address}
    if shape == "ExternalName":
        spec = {"type": shape, "externalName": draw(st.sampled_from(["example.com", "a.default.svc.cluster.local"]))}
    slices = []
    for number in range(draw(st.integers(0, 2))):
        endpoints = draw(
            st.lists(
                st.fixed_dictionaries(
                    {
                        "addresses": st.sampled_from([["10.244.0.1"], ["10.244.0.2"], ["fd00::1"]]),
                        "hostname": st.sampled_from([None, "pod-0", "a.b"]),
                        "conditions": st.fixed_dictionaries({"ready": FLAGS, "serving": FLAGS, "terminating": FLAGS}),
                    }
                ),
                max_size=3,
            )
        )
        metadata = {"name": f"{key.name}-{number}", "namespace": key.namespace}
        slices.append(
            msgspec.convert(
                {"metadata": metadata, "ports": [{"name": "x", "port": 8080}], "endpoints": endpoints}, EndpointSlice
            )
        )
    service = msgspec.convert({"metadata": {"name": key.name, "namespace": key.namespace}, "spec": spec}, Service)
    return key, service, slices


DELETED = st.tuples(st.sampled_from(NAMESPACES), st.sampled_from(NAMES))


@given(st.lists(st.one_of(services(), DELETED), max_size=12), st.sampled_from([1, 16]))
def test_an_incremental_zone_equals_a_fresh_one(history, large):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(zone_module, "_LARGE", large)
        follow(history)


def follow(history) -> None:
    domain = ZoneSettings().domain
    zone, current = Zone(), {}
    for event in history:
        if len(event) == 2:
            key = ObjectKey(*event)
            current.pop(key, None)
            zone.set_service(key, None)
        else:
            key, service, slices = event
            current[key] = service_records(service, slices, domain)
            zone.set_service(key, current[key])
            assert not zone.set_service(key, current[key])  # the same again is no change
    fresh = Zone()
    for key in sorted(current):
        fresh.set_service(key, current[key])
    assert zone.table == fresh.table
    assert zone_file(zone) == zone_file(fresh)
    for key in list(current):
        zone.set_service(key, None)
    assert zone.table == Zone().table


def test_a_large_service_changes_atomically_for_queries(monkeypatch):
    monkeypatch.setattr(zone_module, "_NAMES_PER_STEP", 10)
    names = {"web.default.svc.cluster.local": {"A": tuple(f"10.244.0.{n}" for n in range(50))}} | {
        f"p{n}.web.default.svc.cluster.local": {"A": (f"10.244.0.{n}",)} for n in range(50)
    }
    later = {name: {kind: data[1:] or ("10.244.1.1",) for kind, data in sets.items()} for name, sets in names.items()}
    key, zone = ObjectKey("default", "web"), Zone()
    zone.set_service(key, ServiceRecords(names))
    before = dict(zone.table)

    steps = zone.change_service(key, ServiceRecords(later))
    assert [zone.table == before for _ in steps] == [True] * 5

    fresh = Zone()
    fresh.set_service(key, ServiceRecords(later))
    assert zone.table == fresh.table != before


def test_a_namespace_exists_while_it_has_objects():
    (service,) = read_objects('{kind: Service, metadata: {name: a, namespace: "n"}, spec: {clusterIP: 10.96.0.1}}')
    zone = Zone()
    responder = ready(zone)
    rcodes = []
    records = service_records(service, (), "cluster.local")
    for step in (
        lambda: zone.set_namespace("n", True),
        lambda: zone.set_service(service.key, records),
        lambda: zone.set_namespace("n", False),
        lambda: zone.set_service(service.key, None),
    ):
        step()
        rcodes.append(ask(responder, "n.svc.cluster.local").header.rcode)
    assert rcodes == [0, 0, 0, 3]


def test_an_address_in_several_headless_services_has_all_their_names():
    text = """
kind: Service
metadata: {name: NAME}
spec: {clusterIP: None}
---
kind: EndpointSlice
metadata: {name: NAME, labels: {kubernetes.io/service-name: NAME}}
endpoints: [{addresses: [10.244.0.1], hostname: p}]
"""
    zone = build_zone(read_objects("---".join(text.replace("NAME", name) for name in "ab")))
    name = "1.0.244.10.in-addr.arpa"
    both = lines(ask(ready(zone), name, "PTR").rr)
    assert [line.split()[-1] for line in both] == [f"p.{s}.default.svc.cluster.local." for s in "ab"]
    zone.find_reverse = lambda address: ()  # of Services with a cluster IP
    zone.set_service(ObjectKey("default", "a"), None)
    assert len(ask(ready(zone), name, "PTR").rr) == 1
    assert ask(ready(zone), name, "A").header.rcode == 0  # the name exists
    zone.set_service(ObjectKey("default", "b"), None)
    assert not isinstance(ready(zone).respond_untrusted(packet(name, "PTR")), bytes)  # an outside name now


def test_the_serial_increases_and_negative_answers_contain_it():
    zone = Zone(serial=7)
    responder = ready(zone)
    for serial, shown in ((9, 9), (8, 9)):
        zone.set_serial(serial)
        for name in ("x.cluster.local", "cluster.local"):
            (soa,) = lines(ask(responder, name).auth)
            assert soa.split()[5] == str(shown)


def test_invalid_objects_are_ignored():
    name = "l" * 63
    objects = read_objects(
        f"""
kind: Service
metadata: {{name: odd}}
spec: {{clusterIP: None}}
---
kind: EndpointSlice
metadata: {{name: odd, labels: {{kubernetes.io/service-name: odd}}}}
endpoints: [{{addresses: [nonsense, "fd00::1", 10.1.1.1], hostname: "not a label \\u00e9"}}]
---
kind: Service
metadata: {{name: bad-alias}}
spec: {{type: ExternalName, externalName: "a..b"}}
---
kind: Service
metadata: {{name: "{name}", namespace: "{".".join([name] * 3)}"}}
spec: {{clusterIP: 10.96.0.1}}
"""
    )
    odd, alias = objects[0], objects[2]
    assert len(service_records(odd, [objects[1]], "cluster.local").problems) == 2
    assert "a..b" in service_records(alias, (), "cluster.local").problems[0]
    responder = ready(build_zone(objects))
    assert len(ask(responder, "odd.default.svc.cluster.local").rr) == 1
    assert len(ask(responder, "10-1-1-1.odd.default.svc.cluster.local").rr) == 1
    assert ask(responder, "bad-alias.default.svc.cluster.local").header.rcode == 0
