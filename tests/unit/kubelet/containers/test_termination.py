"""The order in which the containers of a pod stop, and what their preStop hooks delay."""

from __future__ import annotations

import asyncio
import signal
from types import SimpleNamespace
from typing import Any

import msgspec

from bridgehead.kubelet.containers.handlers import Outcome
from bridgehead.kubelet.containers.pod_containers import PodContainers
from bridgehead.kubelet.containers.runs import Run
from bridgehead.kubelet.containers.termination import Deadline, Terminator
from tests.unit.kubelet.pod_factory import make_pod

HOOK = {"preStop": {"exec": {"command": ["true"]}}}


class Node:
    """Containers that run, and end at SIGTERM. `log` has what happens to them, in order; `hook(name)` is a hook."""

    def __init__(self, pod, hook):
        self.runtime = self.handlers = self
        self.log = []
        self._hook = hook
        self.containers = PodContainers(pod, lambda: None)
        for container in pod.spec.init_containers + pod.spec.containers:
            self.containers.set_run(container.name, Run(attempt=0, id=container.name, started_at=1.0))
        context: Any = SimpleNamespace(pod=pod, pod_ip="10.244.1.2", node=self, record=lambda *_: None)
        self.terminator = Terminator(context, self.containers)

    def end(self, name):
        self.containers.set_run(name, msgspec.structs.replace(self.containers.runs[name], finished_at=2.0))

    async def signal_container(self, container_id, number):
        self.log.append((container_id, signal.Signals(number).name))
        self.end(container_id)

    async def perform(self, hook, target, timeout):
        self.log.append((target.container_id, "hook"))
        await self._hook(target.container_id)
        return Outcome(True)


async def stop(node):
    allowed = asyncio.Event()
    allowed.set()
    async with asyncio.timeout(40):
        await node.terminator.stop_pod(Deadline(asyncio.get_running_loop().time() + 1000), allowed)


async def test_hooks_begin_at_once_and_sidecars_stop_last_in_reverse_order():
    sidecars = [{"name": name, "restartPolicy": "Always", "lifecycle": HOOK} for name in ("first", "second")]
    # A main container with a restartPolicy of its own is no sidecar.
    pod = make_pod(initContainers=sidecars, containers=[{"name": "main", "lifecycle": HOOK, "restartPolicy": "Always"}])
    begun = []
    all_begun = asyncio.Event()

    async def hook(name):
        begun.append(name)
        if len(begun) == 3:
            all_begun.set()
        await all_begun.wait()

    node = Node(pod, hook)
    await stop(node)
    assert sorted(node.log[:3]) == [("first", "hook"), ("main", "hook"), ("second", "hook")]
    assert node.log[3:] == [("main", "SIGTERM"), ("second", "SIGTERM"), ("first", "SIGTERM")]


async def test_a_hook_ends_with_its_container():
    pod = make_pod(containers=[{"name": "main", "lifecycle": HOOK}])

    async def hook(name):
        node.end(name)
        await asyncio.Event().wait()

    node = Node(pod, hook)
    await stop(node)
    assert node.log[0] == ("main", "hook")


async def test_an_unexpected_error_of_a_hook_is_logged_and_delays_nothing(caplog):
    pod = make_pod(containers=[{"name": "main", "lifecycle": HOOK}])

    async def hook(name):
        raise LookupError(f"a fault in the hook of {name}")

    node = Node(pod, hook)
    await stop(node)
    assert node.log == [("main", "hook"), ("main", "SIGTERM")]
    assert "a fault in the hook of main" in caplog.text
