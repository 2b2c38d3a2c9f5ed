"""The network namespaces of a lab that runs on this machine: each is entered by a forked process."""

from __future__ import annotations

import asyncio
import os
import select
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeVar

from bridgehead.insight.network_namespaces import MOST_BYTES, SECONDS, Completed, NetworkNamespace, NotEntered
from bridgehead.kubelet.runtimes.runtime import RuntimeFailure, SandboxInfo
from bridgehead.kubelet.runtimes.wire.client import RuntimeClient
from bridgehead.lab import enter, host, state_directories
from bridgehead.lab.plan import LabFiles, NodePlan, RunningLab, plan_nodes
from bridgehead.network.forked_calls import CallFailed, Program, call_forked, run_program
from bridgehead.objects.meta import ObjectKey

Argument = TypeVar("Argument")
Result = TypeVar("Result")

_RUNTIME_SECONDS: Final = 5.0
_STARTING_SECONDS: Final = 2.0  # more than its own bound that a program's process has


class LabNamespaces:
    """The namespaces of a running lab. Also after its end, no other network is taken for it."""

    def __init__(self, lab: RunningLab, files: LabFiles) -> None:
        """Raises OSError when the lab has ended."""
        self._lab = lab
        self._files = files
        self._nodes = {node.name: node for node in plan_nodes(lab.config)}
        self._init = os.pidfd_open(lab.init_pid)
        host.extend_path()

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
        return _LabNamespace(self._lab, name, path, inode, self._check)

    def _check(self) -> None:
        """Raise NotEntered after the end of the lab, when the ids of its processes may be those of others."""
        poll = select.poll()
        poll.register(self._init, select.POLLIN)
        if poll.poll(0):
            raise NotEntered("the lab has ended")


class _LabNamespace:
    def __init__(
        self, lab: RunningLab, name: str, path: str, inode: int | None, check: Callable[[], None]
    ) -> None:
        self.name = name
        self._check = check
        self._enter = partial(enter.enter_network, lab, path, inode)
        self._enter_as_program = partial(enter.enter_as_program, lab, path, inode)

    async def run(self, argv: Sequence[str], *, stdin: bytes = b"", seconds: float = SECONDS) -> Completed:
        # HTTP proxies of the machine are unreachable from the lab.
        env = {key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")}
        program = Program(argv, stdin, env, seconds, MOST_BYTES, enter.mount_kernel_views)
        result = await self._call(run_program, program, self._enter_as_program, seconds + _STARTING_SECONDS)
        return Completed(*result)

    async def call(
        self, function: Callable[[Argument], Result], argument: Argument, *, seconds: float = SECONDS
    ) -> Result:
        return await self._call(function, argument, self._enter, seconds)

    async def _call(
        self,
        function: Callable[[Argument], Result],
        argument: Argument,
        prepare: Callable[[], None],
        seconds: float,
    ) -> Result:
        self._check()
        try:
            return await call_forked(
                function, argument, prepare=prepare, seconds=seconds, most_bytes=2 * MOST_BYTES + (1 << 20)
            )
        except CallFailed as error:
            raise NotEntered(str(error)) from None
        except OSError as error:
            raise NotEntered(f"cannot make a process: {error.strerror}") from None

