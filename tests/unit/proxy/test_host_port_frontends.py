"""Host ports of pods as Frontends."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bridgehead.objects.core import Pod
from bridgehead.objects.meta import ObjectKey
from bridgehead.proxy.frontends import NodeFacts, Reason, SourceNat
from bridgehead.proxy.host_port_frontends import compile_host_ports, has_host_ports, pod_key, pod_of

NODE = NodeFacts(name="node1", addresses=("10.0.0.201", "fd00:10::201"), families=(4, 6))


def pod(*ports: dict[str, Any], ips: tuple[str, ...] = ("10.244.1.2", "fd00:10:244:1::2"), **spec: Any) -> Pod:
    document = {
        "metadata": {"namespace": "default", "name": "web"},
        "spec": {"containers": [{"name": "c", "ports": ports}], **spec},
        "status": {"phase": "Running", "podIP": ips[0] if ips else "", "podIPs": [{"ip": ip} for ip in ips]},
    }
    return msgspec.convert(document, Pod)


def routes(made: Pod, node: NodeFacts = NODE) -> dict[str, str]:
    """Frontend -> its backend."""
    compiled = compile_host_ports(made, node)
    return {str(f.key): f"{f.backends[0].address} {f.backends[0].port}" for f in compiled.frontends}


HTTP = {"containerPort": 80, "hostPort": 8080}
ANY_TCP = ("0.0.0.0:8080/tcp", "127.0.0.1:8080/tcp")


@pytest.mark.parametrize(
    ("port", "expected"),
    [
        (HTTP, dict.fromkeys(ANY_TCP, "10.244.1.2 80") | {"[::]:8080/tcp": "fd00:10:244:1::2 80"}),
        (
            HTTP | {"protocol": "UDP", "hostIP": "0.0.0.0"},
            {"0.0.0.0:8080/udp": "10.244.1.2 80", "127.0.0.1:8080/udp": "10.244.1.2 80"},
        ),
        (HTTP | {"protocol": "SCTP", "hostIP": "::"}, {"[::]:8080/sctp": "fd00:10:244:1::2 80"}),
        (HTTP | {"hostIP": "10.0.0.201"}, {"10.0.0.201:8080/tcp": "10.244.1.2 80"}),
        (HTTP | {"hostIP": "127.0.0.1"}, {"127.0.0.1:8080/tcp": "10.244.1.2 80"}),
        (HTTP | {"hostIP": "fd00:10::201"}, {"[fd00:10::201]:8080/tcp": "fd00:10:244:1::2 80"}),
        ({"containerPort": 80}, {}),
    ],
)
def test_where_a_port_is_published(port, expected):
    assert routes(pod(port)) == expected


def test_pods_without_host_ports_have_no_frontends():
    assert routes(pod(HTTP, hostNetwork=True)) == {}
    assert routes(pod(HTTP, ips=())) == {}
    ended = msgspec.structs.replace(pod(HTTP), status=msgspec.structs.replace(pod(HTTP).status, phase="Succeeded"))
    assert routes(ended) == {}
    assert not has_host_ports(pod(HTTP, hostNetwork=True))
    assert not has_host_ports(pod({"containerPort": 80}))


def test_only_sidecars_count_among_init_containers():
    init = {"name": "i", "ports": [{"containerPort": 81, "hostPort": 8081}]}
    assert routes(pod(initContainers=[init])) == {}
    made = pod(initContainers=[init | {"restartPolicy": "Always"}], ips=("10.244.1.2",))
    assert routes(made) == {"0.0.0.0:8081/tcp": "10.244.1.2 81", "127.0.0.1:8081/tcp": "10.244.1.2 81"}
    assert has_host_ports(made)


def test_a_family_that_the_node_lacks_is_left_out():
    assert routes(pod(HTTP), NodeFacts(name="node1", families=(4,))) == dict.fromkeys(ANY_TCP, "10.244.1.2 80")


def test_clients_keep_their_address_but_on_loopback():
    frontends = compile_host_ports(pod(HTTP), NODE).frontends
    assert {frontend.key.address: frontend.source_nat for frontend in frontends} == {
        "0.0.0.0": SourceNat.HAIRPIN,
        "::": SourceNat.HAIRPIN,
        "127.0.0.1": SourceNat.ALWAYS,
    }


def test_ports_of_the_same_number_on_different_addresses_have_different_owners():
    """A renderer may share rules among the Frontends of one owner and protocol."""
    ports = (HTTP | {"hostIP": "127.0.0.1"}, {"containerPort": 81, "hostPort": 8080, "hostIP": "10.0.0.201"})
    owners = {frontend.owner for frontend in compile_host_ports(pod(*ports), NODE).frontends}
    assert owners == {"default/pod/web:127.0.0.1-8080", "default/pod/web:10.0.0.201-8080"}


@pytest.mark.parametrize(
    ("port", "reason"),
    [(HTTP | {"hostIP": "nowhere"}, Reason.BAD_ADDRESS), (HTTP | {"protocol": "ICMP"}, Reason.BAD_PROTOCOL)],
)
def test_invalid_ports_are_problems(port, reason):
    compiled = compile_host_ports(pod(port), NODE)
    assert compiled.frontends == ()
    assert {problem.reason for problem in compiled.problems} == {reason}


def test_keys_of_pods_are_no_keys_of_services():
    key = ObjectKey("default", "web")
    assert pod_of(pod_key(key)) == key
    assert pod_of(key) is None
