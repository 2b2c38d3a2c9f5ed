"""The network namespaces of a lab that runs on this machine: each is entered by a forked process."""

from __future__ import annotations

import asyncio
import os
import select
from functools import partial
from typing import Final

from bridgehead.insight.forked_namespace import ForkedNamespace
from bridgehead.insight.network_namespaces import NetworkNamespace, NotEntered
from bridgehead.kubelet.runtimes.runtime import RuntimeFailure, SandboxInfo
from bridgehead.kubelet.runtimes.wire.client import RuntimeClient
from bridgehead.lab import enter, preflight, state_directories
from bridgehead.lab.plan import LabFiles, NodePlan, RunningLab, plan_nodes
from bridgehead.objects.meta import ObjectKey

_RUNTIME_SECONDS: Final = 5.0


class LabNamespaces:
    """The namespaces of a running lab. Also after its end, no other network is taken for it."""

    def __init__(self, lab: RunningLab, files: LabFiles) -> None:
        """Raises OSError when the lab has ended."""
        self._lab = lab
        self._files = files
        self._nodes = {node.name: node for node in plan_nodes(lab.config)}
        self._init = os.pidfd_open(lab.init_pid)
        preflight.extend_path()

    def __del__(self) -> None:
        if hasattr(self, "_init"):
            os.close(self._init)

    async def node(self, name: str) -> NetworkNamespace:
        node = self._nodes.get(name)
        if node is None:
            raise NotEntered(f"this lab has no node {name!r}")
        return self._namespace(f"node {name}", enter.network_path(self._lab, node))

    async def outside(self) -> NetworkNamespace:
        return self._namespace("outside", enter.network_path(self._lab, None))

    async def pod(self, key: ObjectKey) -> NetworkNamespace:
        self._check()
        nodes = list(self._nodes.values())
        results = await asyncio.gather(*(self._find_sandbox(node, key) for node in nodes), return_exceptions=True)
        failures = []
        for node, result in zip(nodes, results, strict=True):
            if isinstance(result, RuntimeFailure | OSError | TimeoutError):
                failures.append(f"the container runtime of {node.name} does not answer")
            elif isinstance(result, BaseException):
                raise result
            elif result is not None:
                return self._namespace(f"pod {key}", *result)
        raise NotEntered("; ".join(failures) or "no container runtime has the pod: it has not started, or has ended")

    async def _find_sandbox(self, node: NodePlan, key: ObjectKey) -> tuple[str, int | None] | None:
        """Return the path of a pod's network namespace, and its inode; None if the node does not run the pod."""
        parts = {part.name: part.pid for part in state_directories.read_parts(self._files)}
        # The processes of the lab, by their ids there.
        process = f"/proc/{self._lab.init_pid}/root/proc/{parts.get(node.runtime_part, 0)}"
        runtime = RuntimeClient(f"{process}/root{node.runtime_socket}")
        async with asyncio.timeout(_RUNTIME_SECONDS), runtime:
            found: SandboxInfo | None = None
            for sandbox in await runtime.list_sandboxes():
                if (sandbox.namespace, sandbox.name) == key:
                    found = sandbox  # the last one, if an earlier pod of that name is being removed
        if found is None:
            return None
        if not found.netns:
            return enter.network_path(self._lab, node), None
        # A descriptor of the runtime, which knows its own process by its id in the node only.
        path = f"{process}/fd/{found.netns.rpartition('/')[2]}"
        try:
            return path, os.stat(path).st_ino
        except FileNotFoundError:
            return None

    def _namespace(self, name: str, path: str, inode: int | None = None) -> NetworkNamespace:
        self._check()
        return ForkedNamespace(
            name,
            enter=partial(enter.enter_network, self._lab, path, inode),
            enter_as_program=partial(enter.enter_as_program, self._lab, path, inode),
            before_program=enter.mount_kernel_views,
            check=self._check,
            is_proxied=False,  # HTTP proxies of the machine are unreachable from the lab
        )

    def _check(self) -> None:
        """Raise NotEntered after the end of the lab, when the ids of its processes may be those of others."""
        poll = select.poll()
        poll.register(self._init, select.POLLIN)
        if poll.poll(0):
            raise NotEntered("the lab has ended")
