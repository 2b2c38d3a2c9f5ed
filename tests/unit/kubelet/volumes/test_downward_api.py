"""Values of the downward API: fields of the pod, requests and limits of its containers."""

from __future__ import annotations

import msgspec
import pytest

from bridgehead.kubelet.volumes.downward_api import Addresses, field_value, resource_value
from bridgehead.objects.core import Container, Pod, ResourceFieldSelector

POD = msgspec.convert(
    {
        "metadata": {
            "name": "web",
            "namespace": "ns",
            "uid": "u-1",
            "labels": {"tier": "front", "app": 'a "b"'},
            "annotations": {"text": "one\ntwo\t\\\r\x07", "example.com/note": "ä"},
        },
        "spec": {"nodeName": "node1", "serviceAccountName": "robot"},
    },
    Pod,
)
ADDRESSES = Addresses(("10.0.0.5", "fd00::5"), ("192.0.2.1", "2001:db8::1"))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.name", "web"),
        ("metadata.namespace", "ns"),
        ("metadata.uid", "u-1"),
        ("metadata.labels", 'app="a \\"b\\""\ntier="front"'),
        ("metadata.labels['tier']", "front"),
        ("metadata.labels['none']", ""),
        ("metadata.annotations", 'example.com/note="ä"\ntext="one\\ntwo\\t\\\\\\r\\u0007"'),
        ("metadata.annotations['example.com/note']", "ä"),
        ("spec.nodeName", "node1"),
        ("spec.serviceAccountName", "robot"),
        ("status.hostIP", "192.0.2.1"),
        ("status.hostIPs", "192.0.2.1,2001:db8::1"),
        ("status.podIP", "10.0.0.5"),
        ("status.podIPs", "10.0.0.5,fd00::5"),
    ],
)
def test_fields(path, value):
    assert field_value(path, POD, ADDRESSES) == value


@pytest.mark.parametrize("path", ["status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"])
def test_addresses_that_are_not_known_yet(path):
    assert field_value(path, POD, Addresses()) == ""


@pytest.mark.parametrize("path", ["status.phase", "metadata.name['a']", ""])
def test_unsupported_fields(path):
    with pytest.raises(ValueError, match=f"^unsupported fieldPath: {path[:6]}"):
        field_value(path, POD, ADDRESSES)


CONTAINER = msgspec.convert(
    {
        "name": "a",
        "resources": {"limits": {"memory": "1Gi", "cpu": "1500m"}, "requests": {"cpu": "250m", "memory": "100M"}},
    },
    Container,
)
BARE = Container(name="bare")
ZERO = msgspec.convert({"name": "zero", "resources": {"limits": {"cpu": "0"}}}, Container)
ALLOCATABLE = {"cpu": "4", "memory": "8Gi", "ephemeral-storage": "10G"}


@pytest.mark.parametrize(
    ("container", "resource", "divisor", "value"),
    [
        (CONTAINER, "limits.cpu", "", "2"),
        (CONTAINER, "limits.cpu", "0", "2"),
        (CONTAINER, "limits.cpu", "1m", "1500"),
        (CONTAINER, "requests.cpu", "1", "1"),
        (CONTAINER, "requests.cpu", "1m", "250"),
        (CONTAINER, "limits.memory", "1Mi", "1024"),
        (CONTAINER, "requests.memory", "1Mi", "96"),
        (BARE, "limits.memory", "1Gi", "8"),
        (BARE, "limits.cpu", "1m", "4000"),
        (ZERO, "limits.cpu", "1m", "4000"),
        (BARE, "limits.hugepages-2Mi", "1", "0"),
        (BARE, "requests.cpu", "1m", "0"),
    ],
)
def test_resources(container, resource, divisor, value):
    """Rounded up; a missing limit is what the node has for pods."""
    selector = ResourceFieldSelector(resource=resource, divisor=divisor)
    assert resource_value(selector, POD, container, ALLOCATABLE) == value


@pytest.mark.parametrize(
    ("container", "resource", "value"),
    [
        (BARE, "limits.cpu", "2"),
        (ZERO, "limits.cpu", "2"),
        (CONTAINER, "limits.memory", "1024"),
        (BARE, "limits.memory", "8192"),
    ],
)
def test_a_missing_limit_is_that_of_the_whole_pod(container, resource, value):
    pod = msgspec.convert({"spec": {"resources": {"limits": {"cpu": "2", "memory": "0"}}}}, Pod)
    selector = ResourceFieldSelector(resource=resource, divisor="1Mi" if "memory" in resource else "1")
    assert resource_value(selector, pod, container, ALLOCATABLE) == value


@pytest.mark.parametrize("resource", ["cpu", "limits", "limits.", "usage.cpu"])
def test_unsupported_resources(resource):
    with pytest.raises(ValueError, match=r"^unsupported container resource : "):
        resource_value(ResourceFieldSelector(resource=resource), POD, CONTAINER, ALLOCATABLE)
