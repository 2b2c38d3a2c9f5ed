"""Slices wanted for Endpoints that users wrote."""

from __future__ import annotations

import pytest

from bridgehead.controllers.endpoints.mirroring import is_mirrored, mirror_subsets, mirror_template
from bridgehead.controllers.endpoints.slice_plan import Group
from bridgehead.objects.core import EndpointAddress, EndpointPort, Endpoints, EndpointSubset
from bridgehead.objects.endpoint_slices import Endpoint, EndpointConditions, SlicePort
from bridgehead.objects.meta import ObjectMeta, ObjectReference
from tests.unit.controllers.endpoints.sample_objects import service

PORT = EndpointPort(port=80, name="http")
SLICE_PORT = SlicePort(name="http", protocol="TCP", port=80)
LEADER = {"control-plane.alpha.kubernetes.io/leader": "{}"}


def endpoints(*subsets: EndpointSubset, **meta: object) -> Endpoints:
    metadata = ObjectMeta(namespace="default", name="db", uid="u", **meta)  # type: ignore[arg-type]
    return Endpoints(metadata=metadata, subsets=subsets)


def addresses(*ips: str) -> tuple[EndpointAddress, ...]:
    return tuple(EndpointAddress(ip=ip) for ip in ips)


@pytest.mark.parametrize(
    ("given", "service", "mirrored"),
    [
        (endpoints(), service(selector={}), True),
        (endpoints(), service(), False),
        (endpoints(), None, False),
        (endpoints(labels={"endpointslice.kubernetes.io/skip-mirror": "true"}), service(selector={}), False),
        (endpoints(labels={"endpointslice.kubernetes.io/skip-mirror": "false"}), service(selector={}), True),
        (endpoints(annotations=LEADER), service(selector={}), False),
    ],
)
def test_endpoints_of_services_without_selector_are_mirrored(given, service, mirrored):
    assert is_mirrored(given, service) is mirrored


def test_an_endpoint_has_the_fields_of_its_address():
    reference = ObjectReference(kind="Pod", name="p", uid="u")
    address = EndpointAddress(ip="192.0.2.1", hostname="one", node_name="node1", target_ref=reference)
    mirror = mirror_subsets(endpoints(EndpointSubset(addresses=(address,), ports=(PORT,))))
    assert mirror.wanted == {
        Group("IPv4", (SLICE_PORT,)): [
            Endpoint(
                addresses=("192.0.2.1",),
                conditions=EndpointConditions(ready=True),
                hostname="one",
                node_name="node1",
                target_ref=reference,
            )
        ]
    }


def test_subsets_are_regrouped_by_family_and_ports():
    tls = EndpointPort(port=443)
    mirror = mirror_subsets(
        endpoints(
            EndpointSubset(addresses=addresses("192.0.2.1", "2001:db8::1"), ports=(PORT,)),
            EndpointSubset(addresses=addresses("192.0.2.1"), not_ready_addresses=addresses("192.0.2.2"), ports=(tls,)),
            EndpointSubset(addresses=addresses("2001:db8::1"), ports=(PORT,)),
        )
    )
    assert {
        (group.address_type, group.ports[0].port): [(e.addresses[0], e.conditions.ready) for e in members]
        for group, members in mirror.wanted.items()
    } == {
        ("IPv4", 80): [("192.0.2.1", True)],
        ("IPv6", 80): [("2001:db8::1", True)],
        ("IPv4", 443): [("192.0.2.1", True), ("192.0.2.2", False)],
    }


def test_empty_endpoints_have_no_slices():
    assert mirror_subsets(endpoints()).wanted == {}


def test_invalid_and_surplus_addresses_are_counted():
    subset = EndpointSubset(
        addresses=addresses("192.0.2.1", "nonsense", "192.0.2.2"),
        not_ready_addresses=addresses("192.0.2.3", "192.0.2.4"),
        ports=(PORT,),
    )
    mirror = mirror_subsets(endpoints(subset), maximum=3)
    (members,) = mirror.wanted.values()
    assert [e.addresses[0] for e in members] == ["192.0.2.1", "192.0.2.2", "192.0.2.3"]
    assert (mirror.invalid, mirror.surplus) == (1, 1)


def test_mirrored_slices_have_the_endpoints_labels_and_owner():
    given = endpoints(
        labels={"app": "db", "kubernetes.io/service-name": "lie"},
        annotations={
            "note": "1",
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
            "endpoints.kubernetes.io/last-change-trigger-time": "x",
        },
    )
    template = mirror_template(given)
    assert template.labels == {
        "app": "db",
        "kubernetes.io/service-name": "db",
        "endpointslice.kubernetes.io/managed-by": "endpointslicemirroring-controller.k8s.io",
    }
    assert template.annotations == {"note": "1"}
    assert (template.owner.kind, template.owner.name, template.owner.uid) == ("Endpoints", "db", "u")
