"""The container and the kubelet of logs and exec."""

from __future__ import annotations

import pytest

from bridgehead.apiserver.errors import ApiStatus
from bridgehead.apiserver.http.request_info import parse_query_list
from bridgehead.apiserver.streams.kubelet_access import kubelet_address
from bridgehead.apiserver.streams.kubelet_streams import choose_container


def pod(*names, init=()):
    spec = {"containers": [{"name": n} for n in names], "initContainers": [{"name": n} for n in init]}
    return {"metadata": {"name": "web", "namespace": "default"}, "spec": spec}


@pytest.mark.parametrize(
    ("pod", "wanted", "expected"),
    [
        (pod("a"), "", "a"),
        (pod("a", "b"), "b", "b"),
        (pod("a", init=("i",)), "i", "i"),
    ],
)
def test_the_container_is_chosen_by_name_or_default(pod, wanted, expected):
    assert choose_container(pod, wanted) == expected


@pytest.mark.parametrize(
    ("pod", "wanted", "text"),
    [
        (pod("a"), "z", "container z is not valid for pod web"),
        (pod("a", "b"), "", "a container name must be specified for pod web, choose one of: [a b]"),
        (
            pod("a", init=("i",)),
            "",
            "a container name must be specified for pod web, choose one of: [a] or one of the init containers: [i]",
        ),
    ],
)
def test_an_ambiguous_container_is_refused(pod, wanted, text):
    with pytest.raises(ApiStatus) as caught:
        choose_container(pod, wanted)
    assert (caught.value.code, caught.value.message) == (400, text)


def node(addresses, endpoints=None):
    return {"metadata": {"name": "node1"}, "status": {"addresses": addresses, "daemonEndpoints": endpoints or {}}}


def test_the_kubelets_address_comes_from_the_node_status():
    own = [{"type": "Hostname", "address": "node1"}, {"type": "InternalIP", "address": "10.0.0.201"}]
    assert kubelet_address(node(own)) == ("10.0.0.201", 10250)
    assert kubelet_address(node(own, {"kubeletEndpoint": {"Port": 99}})) == ("10.0.0.201", 99)
    with pytest.raises(ApiStatus, match="no preferred addresses found"):
        kubelet_address(node(own[:1]))


def test_repeated_query_parameters_are_kept():
    query = parse_query_list(b"command=sh&command=-c&command=a%20%26%20b&stdin=true&tty=")
    assert query == [("command", "sh"), ("command", "-c"), ("command", "a & b"), ("stdin", "true"), ("tty", "")]
