"""Which answers to a written status end its story, and which are tried again."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from bridgehead.client.errors import ApiError, Conflict, NotFound
from bridgehead.kubelet import status_writer
from bridgehead.kubelet.status_writer import PodStatusWriter
from bridgehead.objects.core import Pod, PodStatus
from bridgehead.objects.meta import ObjectMeta

POD = Pod(metadata=ObjectMeta(name="web", namespace="default", uid="1", resource_version="5"))
RUNNING = PodStatus(phase="Running")


class Client:
    """Answers patches with `answers`, in turn, and then with success."""

    def __init__(self, *answers: Exception) -> None:
        self.answers = list(answers)
        self.patches: list[object] = []

    async def patch(self, kind, name, namespace, body, **_):
        self.patches.append(body)
        if self.answers:
            raise self.answers.pop(0)
        return POD


@contextlib.asynccontextmanager
async def running(client):
    writer = PodStatusWriter(client, POD)
    task = asyncio.create_task(writer.run())
    try:
        yield writer
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(status_writer, "_RETRY_SECONDS", (0.0,))


@pytest.mark.parametrize(
    "trouble", [Conflict(409, "Conflict", "the object has been modified"), ApiError(500, "InternalError", "oh")]
)
async def test_what_may_pass_is_tried_again(trouble):
    client = Client(trouble, trouble)
    async with running(client) as writer, asyncio.timeout(40):
        writer.submit(RUNNING, urgent=True)
        await writer.flush()
    assert client.patches == [{"metadata": {"uid": "1"}, "status": {"phase": "Running"}}] * 3


async def test_nobody_is_told_of_a_pod_that_is_gone():
    client = Client(NotFound(404, "NotFound", 'pods "web" not found'))
    async with running(client) as writer, asyncio.timeout(40):
        writer.submit(RUNNING, urgent=True)
        await writer.flush()
        writer.submit(PodStatus(phase="Succeeded"), urgent=True)
        await writer.flush()
    assert len(client.patches) == 1


async def test_a_pod_whose_name_another_one_took_is_given_up():
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
