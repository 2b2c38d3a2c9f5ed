"""Several processes of controllers, or of the balancer: one works at a time, and another one takes over."""

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

from bridgehead.client import ApiClient, ElectionTimings, LeaderElector, load_kubeconfig
from bridgehead.client.errors import NotFound
from bridgehead.objects.coordination import Lease
from bridgehead.objects.kinds import DEPLOYMENTS, EVENTS, LEASES, NAMESPACES, REPLICA_SETS, SERVICES
from bridgehead.objects.meta import ObjectKey
from tests import forks
from tests.forks import Forked

from .api_world import DEADLINE, until
from .apiserver_process import ServerProcess
from .python_candidate import candidate, first_line

pytestmark = pytest.mark.integration

WORKLOADS = "--controllers=deployment-controller,replicaset-controller"
POOL = {
    "apiVersion": "metallb.io/v1beta1",
    "kind": "IPAddressPool",
    "metadata": {"name": "pool"},
    "spec": {"addresses": ["10.9.0.0/28"]},
}
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
def instances(api_server: ServerProcess, count: int, part: str, *arguments: str) -> Iterator[list[Instance]]:
    """Processes of a part during the block."""
    found: list[Instance] = []
    try:
        for number in range(count):
            log = api_server.directory / f"{part}-{number}.log"
            with log.open("wb") as output, open(os.devnull, "rb") as nothing:
                process = forks.fork_bridgehead(
                    part,
                    f"--kubeconfig={api_server.directory / 'kubeconfig'}",
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


async def lease_of(client: ApiClient, lease: tuple[str, str] = LEASE) -> Lease | None:
    try:
        return await client.get(LEASES, *lease)
    except NotFound:
        return None


async def wait_for_leader(client: ApiClient, other_than: str = "", lease: tuple[str, str] = LEASE) -> str:
    """Return the identity of the leader, when it is another one."""

    async def leader() -> str:
        found = await lease_of(client, lease)
        holder = found.spec.holder_identity or "" if found is not None else ""
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
        with instances(api_server, 3, "controllers", WORKLOADS) as waiting:
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


async def balanced(client: ApiClient, names: list[str]) -> dict[str, list[str]]:
    """Create Services of the type LoadBalancer; return the addresses of all such Services when these have some."""
    for name in names:
        spec = {"type": "LoadBalancer", "ports": [{"port": 80}]}
        await client.create(SERVICES, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})

    async def addresses() -> dict[str, list[str]]:
        services = [one for one in (await client.list(SERVICES)).items if one.spec.type == "LoadBalancer"]
        found = {one.metadata.name: [entry.ip for entry in one.status.load_balancer.ingress] for one in services}
        return found if all(found.values()) else {}

    result: dict[str, list[str]] = await until(addresses)
    return result


async def test_two_balancers_give_each_service_one_address(api_server: ServerProcess):
    lease = ("bridgehead-balancer", "bridgehead-system")
    pools = "/apis/metallb.io/v1beta1/namespaces/metallb-system/ipaddresspools"
    async with admin(api_server) as client:
        for name in ("bridgehead-system", "metallb-system"):
            await client.create(NAMESPACES, {"metadata": {"name": name}})
        with instances(api_server, 2, "balancer", "--leader-elect", "--metrics=", "--secure-metrics=") as waiting:
            leader = await wait_for_leader(client, lease=lease)

            async def pool_is_made() -> bool:
                try:
                    await client.request("POST", pools, json=POOL)
                except NotFound:
                    return False  # the definitions are not served yet
                return True

            await until(pool_is_made)
            first = await balanced(client, [f"first-{number}" for number in range(4)])
            (working,) = (one for one in waiting if one.has_led)
            working.end(signal.SIGKILL)
            await wait_for_leader(client, other_than=leader, lease=lease)
            both = await balanced(client, [f"second-{number}" for number in range(4)])
            assert first.items() <= both.items()
            assert {len(addresses) for addresses in both.values()} == {1}
            assert len({addresses[0] for addresses in both.values()}) == len(both) == 8


@pytest.mark.slow
async def test_candidates_of_kubernetes_python_client_take_part(api_server: ServerProcess):
    leads = asyncio.Event()

    async def lead() -> None:
        leads.set()
        await asyncio.sleep(10 * DEADLINE)

    async with admin(api_server) as client:
        key = ObjectKey("default", "leader")
        own = LeaderElector(client, key, "own", "part", ElectionTimings(3, 2, 1))
        task = asyncio.create_task(own.run(lead))
        await leads.wait()
        with candidate(api_server, "other") as other:
            await wait_for_leader(client, lease=("leader", "default"))
            task.cancel()
            await asyncio.wait([task])
            assert await asyncio.to_thread(first_line, other) == "leads\n"
            assert await wait_for_leader(client, lease=("leader", "default")) == "other"
            leads.clear()
            task = asyncio.create_task(own.run(lead))
            # The other one renews the Lease: the time is longer than its duration.
            await asyncio.sleep(4)
            assert not leads.is_set()
        async with asyncio.timeout(DEADLINE):
            await leads.wait()
        task.cancel()
        await asyncio.wait([task])
