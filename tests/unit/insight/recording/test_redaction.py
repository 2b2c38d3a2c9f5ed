"""Redaction: no original name or address is left, and equal ones are replaced by equal ones."""

from __future__ import annotations

import ipaddress
import string

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.insight.recording.cleaning import cleaned
from bridgehead.insight.recording.format import check_object
from bridgehead.insight.recording.redacted_addresses import AddressRedaction
from bridgehead.insight.recording.redaction import Redaction
from bridgehead.insight.recording.vocabulary import known_fields, known_values

from .objects import endpoint_slice, node, pod, service

KEY = b"k" * 32
PREFIX = "r012345"


def redaction() -> Redaction:
    return Redaction(KEY, PREFIX)


def test_references_lead_to_the_same_names():
    redact = redaction()
    its_service, its_slice = redact.object(service("acme")), redact.object(endpoint_slice("acme", "default", "n-9"))
    its_node = redact.object(node("n-9"))

    name = its_service["metadata"]["name"]
    assert its_slice["metadata"]["labels"] == {"kubernetes.io/service-name": name}
    assert its_slice["endpoints"][0]["nodeName"] == its_node["metadata"]["name"]
    assert its_node["metadata"]["labels"]["kubernetes.io/hostname"] == its_node["metadata"]["name"]
    assert its_service["spec"]["selector"] == its_service["metadata"]["labels"]
    assert its_service["spec"]["ports"][0]["name"] == its_slice["ports"][0]["name"]


def test_vocabulary_times_and_numbers_stay():
    obj = service(type="NodePort", externalTrafficPolicy="Local")
    obj["metadata"] |= {"resourceVersion": "17", "creationTimestamp": "2026-01-02T03:04:05Z"}

    found = redaction().object(obj)

    assert (found["spec"]["type"], found["spec"]["externalTrafficPolicy"]) == ("NodePort", "Local")
    assert found["metadata"]["resourceVersion"] == "17"
    assert found["metadata"]["creationTimestamp"] == "2026-01-02T03:04:05Z"
    assert found["spec"]["ports"][0]["port"] == 80


NAME = st.text(string.ascii_lowercase + string.digits, min_size=5, max_size=12).map(lambda text: f"zq{text}")
ADDRESSES = st.tuples(st.integers(1, 254), st.integers(1, 254)).map(
    lambda two: (f"10.96.77.{two[0]}", f"10.244.33.{two[1]}", f"192.168.5.{two[0]}", f"203.0.113.{two[1]}")
)


@given(st.lists(NAME, min_size=9, max_size=9, unique=True), ADDRESSES)
def test_no_original_name_or_address_survives(names, addresses):
    name, namespace, label, value, host, image, sentence, volume, other = names
    cluster, pod_ip, node_ip, public = addresses
    its_service = service(name, namespace, cluster, externalName=f"{host}.example.com", externalIPs=[public])
    its_service["metadata"]["labels"] = {f"{label}.example.com/{other}": value}
    its_service["metadata"]["annotations"] = {label: value, "kubernetes.io/ingress.class": other}
    its_service["status"]["loadBalancer"] = {"ingress": [{"hostname": host}, {"ip": public}]}
    its_slice = endpoint_slice(name, namespace, host, pod_ip)
    its_pod = pod(f"{name}-1", namespace, host, volumes=[{"name": volume, "secret": {"secretName": other}}])
    its_pod["spec"]["containers"][0] |= {
        "image": f"{host}.example.com:5000/{image}:1.2",
        "env": [{"name": label, "value": value}],
        "args": [f"--password={value}"],
    }
    its_pod["status"] |= {"podIP": pod_ip, "podIPs": [{"ip": pod_ip}], "hostIP": node_ip}
    its_node = node(host)
    its_node["status"]["addresses"] = [{"type": "InternalIP", "address": node_ip}]
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{name}.1", "namespace": namespace},
        "message": f"the pod {sentence} at {pod_ip} is not ready",
        "reason": sentence,
        "involvedObject": {"kind": "Pod", "name": name},
    }
    ingress = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"rules": [{"host": host, "http": {"paths": [{"path": f"/{value}"}]}}], label: {other: value}},
    }
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "coredns", "namespace": "kube-system"},
        "data": {label: f"forward . {public}"},
    }
    redact = redaction()

    found = [
        redact.object(cleaned(each)) for each in (its_service, its_slice, its_pod, its_node, event, ingress, config)
    ]

    content = msgspec.json.encode(found).decode()
    for original in (*names, *(f'"{address}"' for address in addresses)):
        assert original not in content
    for each in found:
        check_object(each)


def test_secrets_are_left_out_without_redaction_too():
    its_pod = pod()
    container = its_pod["spec"]["containers"][0]
    container |= {
        "command": ["server", "--token=s3cret"],
        "args": ["s3cret"],
        "env": [
            {"name": "PASSWORD", "value": "s3cret"},
            {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "a"}}},
        ],
        "livenessProbe": {"httpGet": {"path": "/", "httpHeaders": [{"name": "A", "value": "s3cret"}]}},
        "lifecycle": {"preStop": {"exec": {"command": ["s3cret"]}}},
    }
    its_pod["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": "s3cret"}
    its_pod["metadata"]["managedFields"] = [{"manager": "s3cret"}]
    workload = {"spec": {"template": {"spec": its_pod["spec"]}}}

    found = cleaned(its_pod)

    assert b"s3cret" not in msgspec.json.encode([found, cleaned(workload)])
    assert found["spec"]["containers"][0]["env"] == [
        {"name": "PASSWORD"},
        {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "a"}}},
    ]


V4 = st.integers(1 << 24, (1 << 32) - 1).map(ipaddress.IPv4Address)
V6 = st.integers(1, (1 << 128) - 1).map(ipaddress.IPv6Address)


def _common_bits(one: str, other: str) -> int:
    left, right = ipaddress.ip_address(one), ipaddress.ip_address(other)
    return left.max_prefixlen - (int(left) ^ int(right)).bit_length()


@given(st.tuples(V4, V4) | st.tuples(V6, V6), st.binary(min_size=1, max_size=32))
def test_addresses_share_as_many_bits_as_before(addresses, key):
    redact = AddressRedaction(key)
    usual = [each for each in addresses if not each.is_loopback]
    replaced = [redact.address(each) for each in usual]

    for was, now in zip(usual, replaced, strict=True):
        assert str(was) != now
        assert ipaddress.ip_address(now).is_multicast == was.is_multicast
    if len(usual) == 2:
        assert _common_bits(*replaced) == _common_bits(*map(str, usual))


@given(st.integers(0, (1 << 20) - 1), st.binary(min_size=1, max_size=32))
def test_an_address_of_services_stays_in_their_range(number, key):
    network = ipaddress.ip_network("10.96.0.0/12")

    assert ipaddress.ip_address(AddressRedaction(key).address(network[number])) in network


@given(V4, st.integers(8, 32))
def test_a_network_has_the_replacements_of_its_addresses(address, length):
    redact = AddressRedaction(KEY)
    network = ipaddress.ip_network(f"{address}/{length}", strict=False)
    replaced = ipaddress.ip_network(redact.network(network))

    assert address.is_loopback or ipaddress.ip_address(redact.address(address)) in replaced


def test_fields_of_kinds_are_known_and_names_are_not():
    assert {"clusterIPs", "nodeName", "podSelector", "internalTrafficPolicy"} <= known_fields()
    assert {"TCP", "kube-system"} <= known_values()
    assert "acme" not in known_fields() | known_values()
