"""The address that a name in a proxy request stands for."""

from __future__ import annotations

import pytest

from bridgehead.apiserver.errors import ApiStatus
from bridgehead.apiserver.proxying.targets import (
    ProxyName,
    Target,
    is_proxyable,
    make_target,
    parse_name,
    pod_target,
    service_port_name,
    service_target,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("web", ProxyName("", "web", "")),
        ("web:80", ProxyName("", "web", "80")),
        ("https:web:", ProxyName("https", "web", "")),
        (":web:main", ProxyName("", "web", "main")),
        ("http:web:80", ProxyName("http", "web", "80")),
        ("ftp:web:80", None),
        ("a:b:c:d", None),
        (":80", None),
    ],
)
def test_names_are_parsed(text, expected):
    assert parse_name(text) == expected


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("10.244.1.5", True),
        ("fd00:10::5", True),
        ("127.0.0.1", False),
        ("::1", False),
        ("::ffff:127.0.0.1", False),
        ("169.254.169.254", False),
        ("fe80::1", False),
        ("224.0.0.1", False),
        ("0.0.0.0", False),
        ("255.255.255.255", False),
        ("web", False),
        ("", False),
    ],
)
def test_some_addresses_may_not_be_reached(address, expected):
    assert is_proxyable(address) is expected


def pod(*ips, ports=()):
    containers = [{"name": "a"}, {"name": "b", "ports": [{"containerPort": port} for port in ports]}]
    return {"spec": {"containers": containers}, "status": {"podIPs": [{"ip": ip} for ip in ips]}}


def test_a_pod_is_reached_at_its_first_address_and_port():
    both = pod("10.244.1.5", "fd00::5", ports=(8080, 9090))
    assert pod_target(ProxyName("", "web", ""), both) == Target("http", "10.244.1.5", 8080)
    assert pod_target(ProxyName("https", "web", "1"), both) == Target("https", "10.244.1.5", 1)
    assert pod_target(ProxyName("https", "web", ""), pod("fd00::5")).authority == "[fd00::5]:443"
    with pytest.raises(ApiStatus, match="address not allowed"):
        pod_target(ProxyName("", "web", ""), pod())


def test_a_port_is_a_number_or_a_name_of_http():
    assert make_target("", "10.0.0.1", "http").port == 80
    huge = "9" * 5000
    for port, text in (
        ("main", "lookup tcp/main: unknown port"),
        ("65536", "address 65536: invalid port"),
        (huge, f"address {huge}: invalid port"),
    ):
        with pytest.raises(ApiStatus) as caught:
            make_target("", "10.0.0.1", port)
        assert (caught.value.code, caught.value.reason) == (503, "ServiceUnavailable")
        assert caught.value.message == f"error trying to reach service: dial tcp: {text}"


def test_a_service_port_is_found_by_number():
    service = {"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}, {"port": 443, "name": "tls"}]}}
    assert service_port_name(service, "443") == "tls"
    assert service_port_name(service, "80") == ""
    assert service_port_name(service, "any") == "any"
    # As in Kubernetes, what is too large for a number is a name.
    assert service_port_name(service, "9" * 5000) == "9" * 5000
    with pytest.raises(ApiStatus, match='no service port 81 found for service "web"'):
        service_port_name(service, "81")


POD_5, POD_6 = pod("10.244.1.5"), pod("10.244.1.6", "fd00::6")


def endpoint(ip, name, namespace="default", **conditions):
    reference = {"kind": "Pod", "namespace": namespace, "name": name}
    return {"addresses": [ip], "targetRef": reference, "conditions": conditions}


def made_slice(*endpoints, port="main", number=8080):
    ports = [{"name": port, "port": number}]
    return {"metadata": {"name": "web-1", "namespace": "default"}, "endpoints": list(endpoints), "ports": ports}


def find(*slices, port="main", start=lambda n: 0, scheme=""):
    pods = {"five": POD_5, "six": POD_6}
    wanted = ProxyName(scheme, "web", port)
    return service_target(wanted, f"web:{port}", port, slices, lambda ref: pods.get(ref["name"]), start)


def test_a_service_is_reached_at_a_ready_address_of_a_pod():
    two = made_slice(endpoint("10.244.1.5", "five", ready=True), endpoint("fd00::6", "six"))
    assert find(two) == Target("http", "10.244.1.5", 8080)
    assert find(two, start=lambda n: n - 1, scheme="https") == Target("https", "fd00::6", 8080)
    not_ready = made_slice(endpoint("10.244.1.5", "five", ready=False))
    other = made_slice(endpoint("10.244.1.5", "five"), port="other", number=1)
    assert find(not_ready, other, two).port == 8080
    assert find(made_slice(endpoint("10.244.1.5", "five"), port="", number=7), port="").port == 7
    assert find(two, made_slice(endpoint("10.244.1.5", "five"), number=9)).port == 8080, (
        "the order is that of preference"
    )


@pytest.mark.parametrize(
    "entry",
    [
        {"addresses": ["10.244.1.5"]},
        endpoint("10.244.1.5", "five", "other"),
        endpoint("10.244.1.5", "gone"),
        endpoint("10.244.1.7", "five"),
    ],
)
def test_an_address_that_is_not_its_pods_is_not_reached(entry):
    with pytest.raises(ApiStatus, match='no endpoints available for service "web:main"'):
        find(made_slice(entry))


def test_a_service_without_endpoints_is_unavailable():
    with pytest.raises(ApiStatus, match='no endpoints available for service "web"'):
        find()
