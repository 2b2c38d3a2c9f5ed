"""The network namespaces of any cluster: of nodes by `exec` into a pod with the node's network, of pods by their own.

Only the programs of the images can run there. A node that is this machine is entered directly.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from bridgehead.client import ApiClient
from bridgehead.client.errors import ApiError, ClientError, Forbidden, NotFound
from bridgehead.client.pod_exec import exec_in_pod
from bridgehead.network.own_addresses import is_local
from bridgehead.objects.core import Node, Pod
from bridgehead.objects.kinds import NODES, PODS
from bridgehead.objects.meta import ObjectKey

from .findings import printable
from .forked_namespace import ForkedNamespace
from .network_namespaces import MOST_BYTES, SECONDS, Completed, NetworkNamespace, NotEntered, OnlyPrograms

Argument = TypeVar("Argument")
Result = TypeVar("Result")

# Label of pods with the network of their node, and its values, the preferred one first: service proxies, the
# load-balancer speaker, network plug-ins.
_LABEL: Final = "k8s-app"
_NODE_PODS: Final = (
    *("kube-proxy", "bridgehead-proxy", "bridgehead-speaker"),
    *("calico-node", "cilium", "kube-router", "kindnet", "flannel"),
)
_NOT_FOUND: Final = 127
# The texts of container runtimes for a program that the image lacks.
_NO_PROGRAM: Final = re.compile(r"executable file not found|no such file or directory|command not found", re.IGNORECASE)

_PATH_OF_URL: Final = re.compile(r"(https?://[^/\s\"]+)/[^\s\"]*")


class RemoteNamespaces:
    """The namespaces of the cluster of a client, which remains the caller's."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client

    async def node(self, name: str) -> NetworkNamespace:
        try:
            with contextlib.suppress(Forbidden):  # pods, which are needed, may be readable all the same
                if _is_this_machine(await self._client.get(NODES, name)):
                    return ForkedNamespace(f"node {name}")
            labels, field = f"{_LABEL} in ({','.join(_NODE_PODS)})", f"spec.nodeName={name}"
            pods = (await self._client.list(PODS, label_selector=labels, field_selector=field)).items
        except NotFound:
            raise NotEntered(f"the cluster has no node {printable(name)!r}") from None
        except ClientError as error:
            raise NotEntered(printable(str(error))) from None
        pod = find_node_pod(pods)
        if pod is None:
            raise NotEntered(_why_no_pod(pods))
        return _PodNamespace(self._client, f"node {name}", pod)

    async def pod(self, key: ObjectKey) -> NetworkNamespace:
        try:
            pod = await self._client.get(PODS, key.name, key.namespace)
        except NotFound:
            raise NotEntered("there is no such pod") from None
        except ClientError as error:
            raise NotEntered(printable(str(error))) from None
        if not running_container(pod):
            raise NotEntered("no container of the pod runs")
        return _PodNamespace(self._client, f"pod {key}", pod)

    async def outside(self) -> NetworkNamespace:
        return ForkedNamespace("outside")


def find_node_pod(pods: Sequence[Pod]) -> Pod | None:
    """Return the pod of a node that shows the node's network best, of the known ones; None if none of them runs."""
    known = [
        pod
        for pod in pods
        if pod.metadata.labels.get(_LABEL) in _NODE_PODS and pod.spec.host_network and running_container(pod)
    ]
    return min(
        known,
        key=lambda pod: (pod.is_terminating, _NODE_PODS.index(pod.metadata.labels[_LABEL]), pod.metadata.name),
        default=None,
    )


def _why_no_pod(pods: Sequence[Pod]) -> str:
    """Return why no pod shows the network of the node that has these pods."""
    for pod in pods:
        if pod.metadata.labels.get(_LABEL) in _NODE_PODS and pod.spec.host_network:
            waiting = [status.state.waiting.reason for status in pod.status.container_statuses if status.state.waiting]
            reason = f" ({waiting[0]})" if waiting and waiting[0] else ""
            return printable(f"no container of its pod {pod.key} runs{reason}")
    return "no pod of a service proxy or network plug-in is on it, into which one could exec"


def running_container(pod: Pod) -> str:
    """Return the name of the pod's first running container; "" if none runs."""
    return next((status.name for status in pod.status.container_statuses if status.state.running is not None), "")


def _is_this_machine(node: Node) -> bool:
    """Return whether this process is in the network namespace of a node, and may read all of it."""
    return (
        os.geteuid() == 0
        and socket.gethostname().lower() == node.metadata.name
        and bool(node.internal_ips)
        and all(is_local(address) for address in node.internal_ips)
    )


class _PodNamespace:
    def __init__(self, client: ApiClient, name: str, pod: Pod) -> None:
        self.name = name
        self._client = client
        self._pod = pod

    async def run(self, argv: Sequence[str], *, stdin: bytes = b"", seconds: float = SECONDS) -> Completed:
        key = ObjectKey(self._pod.metadata.namespace, self._pod.metadata.name)
        container = running_container(self._pod)
        try:
            result = await exec_in_pod(
                self._client, key, container, argv, stdin=stdin, seconds=seconds, most_bytes=MOST_BYTES
            )
        except Forbidden as error:  # without the pod's name, the reason is the same for all pods of the namespace
            raise NotEntered(printable(str(error).partition(" is forbidden: ")[2] or str(error))) from None
        except ApiError as error:
            if error.status >= 500 and _NO_PROGRAM.search(str(error)):
                return Completed(_NOT_FOUND, b"", printable(str(error)).encode())
            # The URL of a kubelet has the pod and the program in it; the reason is one for all pods of the node.
            raise NotEntered(printable(_PATH_OF_URL.sub(r"\1", str(error)))) from None
        except ClientError as error:
            raise NotEntered(printable(str(error))) from None
        return Completed(*result)

    async def call(
        self, function: Callable[[Argument], Result], argument: Argument, *, seconds: float = SECONDS
    ) -> Result:
        raise OnlyPrograms("only the programs of the pod's image can run there")
