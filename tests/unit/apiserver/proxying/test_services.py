"""The Service and the endpoints of an aggregated API."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from bridgehead.apiserver.proxying.aggregation.api_service_status import (
    RemoteApi,
    check_service,
    find_targets,
    parse_remote,
)
from bridgehead.apiserver.proxying.targets import Target
from bridgehead.apiserver.service_endpoints import NoEndpoint, ServiceEndpoints

API = RemoteApi("v1.a.io", "a.io", "v1", "default", "api", 443, b"", False, 100, 15, False)


def service(*ports, **spec):
    return {"spec": {"ports": list(ports), **spec}}


def slice_of(*endpoints, port=8443, name=""):
    ports = [{"port": port, "name": name}] if name else [{"port": port}]
    return {"endpoints": list(endpoints), "ports": ports}


READY, UNREADY = {"addresses": ["10.244.1.5"]}, {"addresses": ["10.244.1.6"], "conditions": {"ready": False}}
SERVICE = service({"port": 443, "name": "https"}, {"port": 80})


def test_an_api_service_is_parsed():
    obj: dict[str, Any] = {
        "metadata": {"name": "v1.a.io"},
        "spec": {
            "group": "a.io",
            "version": "v1",
            "caBundle": base64.b64encode(b"PEM").decode(),
            "groupPriorityMinimum": 100,
            "versionPriority": 15,
            "service": {"namespace": "default", "name": "api", "port": 444},
        },
        "status": {"conditions": [{"type": "Available", "status": "True"}]},
    }
    parsed = parse_remote(obj)
    assert parsed == API._replace(port=444, authority=b"PEM", is_available=True)
    assert (parsed.path, parsed.server_name) == ("/apis/a.io/v1", "api.default.svc")
    assert API._replace(group="").path == "/api/v1"
    del obj["spec"]["service"]
    assert parse_remote(obj) is None


@pytest.mark.parametrize(
    ("found", "slices", "reason"),
    [
        (None, [], "ServiceNotFound"),
        (service({"port": 80}), [], "ServicePortError"),
        (SERVICE, [], "EndpointsNotFound"),
        (SERVICE, [slice_of(UNREADY, name="https")], "MissingEndpoints"),
        (SERVICE, [slice_of(READY, name="other")], "MissingEndpoints"),
        (SERVICE, [slice_of(READY, name="https")], None),
        (service(type="ExternalName"), [], None),
    ],
)
def test_a_service_without_endpoints_is_not_available(found, slices, reason):
    availability = check_service(API, ServiceEndpoints("api", found, slices))
    assert (availability.reason if availability else None) == reason
    assert availability is None or availability.status == "False"


def test_the_targets_are_the_ready_endpoints():
    slices = [slice_of(READY, UNREADY, name="https"), slice_of({"addresses": ["fd00::5", "fd00::6"]}, name="https")]
    slices.append({"endpoints": None, "ports": None})
    targets = [Target("https", "10.244.1.5", 8443), Target("https", "fd00::5", 8443)]
    assert find_targets(API, ServiceEndpoints("api", SERVICE, slices)) == targets
    outside = service(type="ExternalName", externalName="api.example.com")
    assert find_targets(API, ServiceEndpoints("api", outside, [])) == [Target("https", "api.example.com", 443)]


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (None, 'service "api" not found'),
        (service({"port": 80}), 'no service port 443 found for service "api"'),
        (SERVICE, 'no endpoints available for service "api"'),
    ],
)
def test_an_api_without_targets_is_refused(found, text):
    with pytest.raises(NoEndpoint, match=text):
        find_targets(API, ServiceEndpoints("api", found, []))
