"""The ready endpoints of Services."""

from __future__ import annotations

import pytest

from bridgehead.apiserver.service_endpoints import NoEndpoint, read_endpoints
from bridgehead.storage import Facts, Key, MemoryStore

SLICES = "endpointslices.discovery.k8s.io"
PORTS = [{"name": "a", "port": 8080}, {"name": "b", "port": 8443}]


@pytest.fixture
async def store():
    store = MemoryStore()
    yield store
    await store.close()


async def put(store, resource, name, labels=None, **obj):
    await store.create(Key(resource, "default", name), {"metadata": {"name": name}, **obj}, Facts(labels or {}))


async def put_slice(store, name, *addresses, service="web", ready=True, **more):
    endpoints = [{"addresses": [address], "conditions": {"ready": ready}} for address in addresses]
    labels = {"kubernetes.io/service-name": service}
    await put(store, SLICES, name, labels, **{"ports": PORTS, "endpoints": endpoints, **more})


async def test_addresses_are_those_of_ready_endpoints_of_the_service(store):
    await put(store, "services", "web", spec={"ports": [{"name": "a", "port": 80}, {"name": "b", "port": 443}]})
    await put_slice(store, "one", "10.0.0.1")
    await put_slice(store, "not-ready", "10.0.0.2", ready=False)
    await put_slice(store, "unknown", ports=None, endpoints=None)
    await put_slice(store, "other", "10.0.0.9", service="other")
    await put_slice(
        store, "two", ports=[{"name": "b", "port": 9443}], endpoints=[{"addresses": ["fd00::1", "fd00::2"]}]
    )
    found = read_endpoints(store, "default", "web")
    assert found.addresses(443) == [("10.0.0.1", 8443), ("fd00::1", 9443)]
    assert found.addresses(80) == [("10.0.0.1", 8080)]


async def test_endpoints_of_the_first_family_are_preferred(store):
    spec = {"ports": [{"name": "b", "port": 443}], "ipFamilies": ["IPv6", "IPv4"]}
    await put(store, "services", "web", spec=spec)
    await put_slice(store, "v4", "10.0.0.1", addressType="IPv4")
    assert read_endpoints(store, "default", "web").addresses(443) == [("10.0.0.1", 8443)]
    await put_slice(store, "v6", "fd00::1", addressType="IPv6")
    assert read_endpoints(store, "default", "web").addresses(443) == [("fd00::1", 8443)]


async def test_a_service_without_endpoints_is_refused(store):
    await put(store, "services", "elsewhere", spec={"type": "ExternalName", "externalName": "a.b"})
    await put(store, "services", "empty", spec={"ports": [{"port": 443}]})
    for name, port, text in (
        ("none", 443, 'service "none" not found'),
        ("elsewhere", 443, 'unsupported service type "ExternalName"'),
        ("empty", 80, 'no service port 80 found for service "empty"'),
        ("empty", 443, 'no endpoints available for service "empty"'),
    ):
        with pytest.raises(NoEndpoint, match=text):
            read_endpoints(store, "default", name).addresses(port)
