"""Objects as a speaker keeps them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bridgehead.balancer.compiled_configuration import Configuration, Pool
from bridgehead.balancer.ranges import parse_range
from bridgehead.balancer.speaker.announced_services import publication_of
from bridgehead.balancer.speaker.service_statuses import BGP, LAYER2
from bridgehead.balancer.speaker.trimming import trim_bgp_status, trim_layer2_status, trim_service, trim_slice
from bridgehead.objects.core import LoadBalancerIngress, LoadBalancerStatus, Service, ServiceSpec, ServiceStatus
from bridgehead.objects.endpoint_slices import SERVICE_NAME_LABEL, Endpoint, EndpointConditions, EndpointSlice
from bridgehead.objects.meta import ObjectMeta
from bridgehead.objects.metallb import (
    InterfaceInfo,
    ServiceBGPStatus,
    ServiceBGPStatusStatus,
    ServiceL2Status,
    ServiceL2StatusStatus,
)

CONFIGURATION = Configuration((Pool("pool", "metallb", (parse_range("10.0.0.0/24"),)),))
META = ObjectMeta(name="web", namespace="default", uid="u", resource_version="7", labels={"app": "web"})

flags = st.sampled_from((None, False, True))
endpoints = st.builds(
    Endpoint,
    addresses=st.just(("10.244.0.1",)),
    node_name=st.sampled_from((None, "node1", "node2")),
    conditions=st.builds(EndpointConditions, ready=flags, serving=flags, terminating=flags),
)
slices = st.builds(EndpointSlice, metadata=st.just(META), endpoints=st.lists(endpoints, max_size=4).map(tuple))
services = st.builds(
    Service,
    metadata=st.just(META),
    spec=st.builds(
        ServiceSpec,
        type=st.sampled_from(("LoadBalancer", "NodePort", "ExternalName")),
        external_ips=st.sampled_from(((), ("10.0.0.9",))),
        external_traffic_policy=st.sampled_from(("", "Local", "Cluster")),
        load_balancer_class=st.sampled_from((None, "other")),
    ),
    status=st.builds(
        ServiceStatus,
        load_balancer=st.just(
            LoadBalancerStatus(ingress=(LoadBalancerIngress(ip="10.0.0.1"), LoadBalancerIngress(hostname="x")))
        ),
    ),
)


@given(services, st.lists(slices, max_size=2))
def test_what_is_announced_is_the_same(service, given_slices):
    trimmed = publication_of(trim_service(service), map(trim_slice, given_slices), CONFIGURATION)
    assert trimmed == publication_of(service, given_slices, CONFIGURATION)


def test_an_object_keeps_what_identifies_it():
    labelled = EndpointSlice(metadata=ObjectMeta(name="web-1", labels={SERVICE_NAME_LABEL: "web", "other": "x"}))
    assert trim_slice(labelled).service_key == labelled.service_key
    for trimmed in (trim_service(Service(metadata=META)), trim_slice(EndpointSlice(metadata=META))):
        meta = trimmed.metadata
        assert (meta.namespace, meta.name, meta.uid, meta.resource_version) == ("default", "web", "u", "7")


def test_the_status_of_an_object_is_kept():
    layer2 = ServiceL2Status(
        metadata=META, status=ServiceL2StatusStatus(node="node1", interfaces=(InterfaceInfo(name="eth0"),))
    )
    bgp = ServiceBGPStatus(metadata=META, status=ServiceBGPStatusStatus(node="node1", peers=("router",)))
    assert LAYER2.details(trim_layer2_status(layer2)) == ("eth0",)
    assert BGP.details(trim_bgp_status(bgp)) == ("router",)
    assert trim_bgp_status(bgp).metadata.labels == META.labels


def test_slices_with_endpoints_on_the_same_nodes_share_them():
    first, second = (
        EndpointSlice(endpoints=(Endpoint(addresses=(address,), node_name="node1"),)) for address in ("10.1.1.1", "::1")
    )
    assert trim_slice(first).endpoints is trim_slice(second).endpoints


def test_services_that_are_alike_share_what_they_have_in_common():
    first, second = (
        trim_service(Service(metadata=ObjectMeta(name=name), spec=ServiceSpec(type="LoadBalancer")))
        for name in ("web", "db")
    )
    assert first.spec is second.spec
    assert first.metadata.labels is first.metadata.annotations is second.metadata.annotations
