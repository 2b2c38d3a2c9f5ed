"""The deadline of a terminating pod, and who may hold its SIGTERM back."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from bridgehead.kubelet.pods import pod_termination
from bridgehead.kubelet.pods.pod_termination import PodTermination
from bridgehead.kubelet.runtimes.runtime import RuntimeFailure
from tests.unit.kubelet.pod_factory import make_pod


class Barrier:
    """Holds SIGTERM until it is cancelled."""

    async def hold(self, pod, seconds):
        await asyncio.Event().wait()


class Terminator:
    """Stops the containers when SIGTERM is allowed, after `failures`."""

    def __init__(self, failures=0):
        self.failures = failures
        self.begun = asyncio.Event()
        self.left = 0.0  # seconds until the deadline

    async def stop_pod(self, deadline, sigterm_allowed):
        if self.failures:
            self.failures -= 1
            raise RuntimeFailure("it does not answer")
        self.begun.set()
        await sigterm_allowed.wait()
        self.left = deadline.at - asyncio.get_running_loop().time()


def termination():
    settings = SimpleNamespace(termination_barrier=1000.0)
    pod = make_pod(terminationGracePeriodSeconds=1000)
    context: Any = SimpleNamespace(pod=pod, node=SimpleNamespace(settings=settings))
    barrier: Any = Barrier()
    return PodTermination(context, barrier)


async def test_a_pod_has_its_grace_period():
    stopped = Terminator()
    await termination().stop_containers(stopped, is_forced=False, has_barrier=False)
    assert 500 < stopped.left <= 1000


async def test_a_forced_end_takes_a_second():
    stopped = Terminator()
    await termination().stop_containers(stopped, is_forced=True, has_barrier=False)
    assert stopped.left <= 1


async def test_the_barrier_ends_when_the_pod_is_gone():
    ending, stopped = termination(), Terminator()
    task = asyncio.create_task(ending.stop_containers(stopped, is_forced=False, has_barrier=True))
    await stopped.begun.wait()
    assert not task.done()
    ending.force()
    async with asyncio.timeout(40):
        await task
    assert stopped.left <= 1


async def test_a_runtime_that_does_not_answer_is_asked_again(monkeypatch):
    monkeypatch.setattr(pod_termination, "_LONGEST_RETRY_SECONDS", 0.0)
    stopped = Terminator(failures=3)
    async with asyncio.timeout(40):
        await termination().stop_containers(stopped, is_forced=True, has_barrier=False)
    assert stopped.begun.is_set()
