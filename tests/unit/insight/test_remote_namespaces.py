"""The pod that shows a node's network."""

from __future__ import annotations

from bridgehead.insight.remote_namespaces import find_node_pod, running_container
from bridgehead.objects.core import ContainerState, ContainerStateRunning, ContainerStatus, Pod, PodSpec, PodStatus
from bridgehead.objects.meta import ObjectMeta

RUNNING = ContainerState(running=ContainerStateRunning())


def make_pod(name: str, app: str, *, host_network: bool = True, runs: bool = True) -> Pod:
    states = (ContainerState(), RUNNING if runs else ContainerState())
    statuses = tuple(ContainerStatus(name=f"c{number}", state=state) for number, state in enumerate(states))
    return Pod(
        metadata=ObjectMeta(namespace="kube-system", name=name, labels={"k8s-app": app}),
        spec=PodSpec(host_network=host_network),
        status=PodStatus(container_statuses=statuses),
    )


def test_the_service_proxy_is_preferred() -> None:
    pods = [make_pod("a", "calico-node"), make_pod("b", "kube-proxy"), make_pod("c", "kube-proxy")]
    found = find_node_pod(pods)
    assert found is not None
    assert found.metadata.name == "b"
    assert running_container(found) == "c1"


def test_pods_with_another_network_or_unknown_ones_or_that_do_not_run_are_no_candidates() -> None:
    pods = [
        make_pod("a", "kube-proxy", host_network=False),
        make_pod("b", "web"),
        make_pod("c", "kube-proxy", runs=False),
    ]
    assert find_node_pod(pods) is None
