"""Three processes of `bridgehead controllers` for one cluster: one works at a time, and another one takes over."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from bridgehead.client import ApiClient, load_kubeconfig
from bridgehead.client.errors import NotFound
from bridgehead.objects.coordination import Lease
from bridgehead.objects.kinds import DEPLOYMENTS, EVENTS, LEASES, REPLICA_SETS
from tests import forks
from tests.forks import Forked

from .api_world import DEADLINE, until
from .apiserver_process import ServerProcess

pytestmark = pytest.mark.integration

LEASE = ("kube-controller-manager", "kube-system")


@pytest.fixture(scope="module")
def api_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("server")).running() as process:
        yield process


@dataclass
class Instance:
    """A process of the controllers, with what it logs."""

    process: Forked
    log: Path
    code: int | None = None

    @property
    def has_led(self) -> bool:
        return "holds the lease" in self.log.read_text()

    def end(self, number: int) -> None:
        if self.code is None:
            self.process.send_signal(number)
            self.code = self.process.wait(DEADLINE)


@contextlib.contextmanager
def instances(api_server: ServerProcess, count: int, *arguments: str) -> Iterator[list[Instance]]:
    found = []
    try:
        for number in range(count):
            log = api_server.directory / f"controllers-{number}.log"
            with log.open("wb") as output, open(os.devnull, "rb") as nothing:
                process = forks.fork_bridgehead(
                    "controllers",
                    f"--kubeconfig={api_server.directory / 'kubeconfig'}",
                    "--controllers=deployment-controller,replicaset-controller",
                    *arguments,
                    streams=(nothing.fileno(), output.fileno(), output.fileno()),
                )
            found.append(Instance(process, log))
        yield found
    finally:
        for one in found:
            one.end(signal.SIGKILL)


@contextlib.asynccontextmanager
async def admin(api_server: ServerProcess) -> AsyncIterator[ApiClient]:
    async with ApiClient(load_kubeconfig(api_server.directory / "kubeconfig")) as client:
        yield client


async def lease_of(client: ApiClient) -> Lease | None:
    try:
        return await client.get(LEASES, *LEASE)
    except NotFound:
        return None


async def wait_for_leader(client: ApiClient, other_than: str = "") -> str:
    """Return the identity of the leader, when it is another one."""

    async def leader() -> str:
        lease = await lease_of(client)
        holder = lease.spec.holder_identity or "" if lease is not None else ""
        return holder if holder != other_than else ""

    found: str = await until(leader)
    return found


async def make_deployment(client: ApiClient, name: str) -> None:
    """Create a Deployment and wait for its ReplicaSet."""
    pods = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": name}}, "template": pods}
    await client.create(DEPLOYMENTS, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})

    async def exists() -> bool:
        return bool((await client.list(REPLICA_SETS, "default", f"app={name}")).items)

    await until(exists)


async def test_one_instance_works_and_another_one_takes_over(api_server: ServerProcess):
    async with admin(api_server) as client:
        with instances(api_server, 3) as waiting:
            leader = await wait_for_leader(client)
            await make_deployment(client, "first")
            for name, number in (("after-a-crash", signal.SIGKILL), ("after-an-end", signal.SIGTERM)):
                # The log is written before the first work.
                (working,) = (one for one in waiting if one.code is None and one.has_led)
                began = time.monotonic()
                working.end(number)
                leader = await wait_for_leader(client, other_than=leader)
                elected = time.monotonic() - began
                await make_deployment(client, name)
                logging.info("%s: lease %.2f s, work %.2f s", name, elected, time.monotonic() - began)
            assert [one.code for one in waiting].count(0) == 1
            lease = await lease_of(client)
            assert lease is not None
            assert lease.spec.lease_transitions == 2
            events = (await client.list(EVENTS, "kube-system")).items
            elections = [event for event in events if event.reason == "LeaderElection"]
            assert len(elections) == 3
            assert all(event.message.endswith("became leader") for event in elections)
            assert all(event.involved_object.kind == "Lease" for event in elections)
            for name in ("first", "after-a-crash", "after-an-end"):
                assert len((await client.list(REPLICA_SETS, "default", f"app={name}")).items) == 1
            # An instance whose Lease another one has got ends.
            (working,) = (one for one in waiting if one.code is None)
            await client.patch(LEASES, *LEASE, {"spec": {"holderIdentity": "someone"}})
            working.code = await asyncio.to_thread(working.process.wait, DEADLINE)
            assert working.code == 1
            assert "bridgehead controllers: leaderelection lost" in working.log.read_text()
            lease = await lease_of(client)
            assert lease is not None
            assert lease.spec.holder_identity == "someone"
