"""Answers to a written status: those that settle it, and those after which it is written again."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from bridgehead.client.errors import ApiError, Conflict, NotFound
from bridgehead.kubelet.pods import status_manager
from bridgehead.kubelet.pods.status_manager import PodStatusManager
from bridgehead.objects.core import Pod, PodStatus
from bridgehead.objects.meta import ObjectMeta

POD = Pod(metadata=ObjectMeta(name="web", namespace="default", uid="1", resource_version="5"))
RUNNING = PodStatus(phase="Running")


class Client:
    """Answers patches with `answers`, in turn, and then with success."""

    def __init__(self, *answers: Exception) -> None:
        self.answers = list(answers)
        self.patches: list[object] = []
        self.has_answered = asyncio.Event()

    async def patch(self, kind, name, namespace, body, **_):
        self.patches.append(body)
        self.has_answered.set()
        if self.answers:
            raise self.answers.pop(0)
        return POD


@contextlib.asynccontextmanager
async def running(client, pod=POD):
    writer = PodStatusManager(client, pod)
    task = asyncio.create_task(writer.run())
    try:
        yield writer
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(status_manager, "_LONGEST_RETRY_SECONDS", 0.0)


@pytest.mark.parametrize(
    "trouble", [Conflict(409, "Conflict", "the object has been modified"), ApiError(500, "InternalError", "oh")]
)
async def test_transient_errors_are_retried(trouble):
    client = Client(trouble, trouble)
    async with running(client) as writer, asyncio.timeout(40):
        writer.submit(RUNNING, urgent=True)
        await writer.flush()
    assert client.patches == [{"metadata": {"uid": "1"}, "status": {"phase": "Running"}}] * 3


async def test_no_status_is_written_for_a_pod_that_is_gone():
    client = Client(NotFound(404, "NotFound", 'pods "web" not found'))
    async with running(client) as writer, asyncio.timeout(40):
        writer.submit(RUNNING, urgent=True)
        await writer.flush()
        writer.submit(PodStatus(phase="Succeeded"), urgent=True)
        await writer.flush()
    assert len(client.patches) == 1


async def test_the_end_of_a_static_pod_does_not_wait_for_the_api_server():
    metadata = ObjectMeta(name="web", namespace="default", annotations={"kubernetes.io/config.source": "file"})
    client = Client()
    async with running(client, Pod(metadata=metadata)) as writer, asyncio.timeout(40):
        writer.bind(POD)
        client.answers = [NotFound(404, "NotFound", 'pods "web" not found')]
        writer.submit(RUNNING, urgent=True)
        await writer.flush()
        await client.has_answered.wait()  # the mirror pod is gone
        client.has_answered.clear()
        await writer.flush()
        writer.bind(POD)  # the next mirror pod gets the status
        await client.has_answered.wait()
    assert client.patches == [{"metadata": {"uid": "1"}, "status": {"phase": "Running"}}] * 2


async def test_a_pod_replaced_by_another_of_its_name_is_dropped():
    tried = asyncio.Event()

    class Stubborn(Client):
        async def patch(self, *args, **options):
            tried.set()
            self.answers.append(Conflict(409, "Conflict", "Precondition failed: UID in precondition"))
            return await super().patch(*args, **options)

    async with running(Stubborn()) as writer, asyncio.timeout(40):
        writer.submit(RUNNING, urgent=True)
        flushed = asyncio.create_task(writer.flush())
        await tried.wait()
        writer.abandon()
        await flushed
