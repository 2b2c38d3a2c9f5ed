"""Clients of several API servers while servers are killed, stopped, or drop what is sent to them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web

from bridgehead.client import ApiClient, ClientConfig, Informer, load_kubeconfig, transport
from bridgehead.client.errors import Unreachable
from bridgehead.objects.core import ConfigMap
from bridgehead.objects.kinds import CONFIG_MAPS
from bridgehead.objects.meta import ObjectMeta

from .answering import serving
from .api_world import running, until, until_seen
from .apiserver_process import ServerProcess
from .relay_process import RelayProcess, relays

pytestmark = pytest.mark.integration


class ListCounter(ApiClient):
    """A client that counts its lists."""

    lists = 0

    async def list(self, *arguments: Any, **more: Any) -> Any:
        self.lists += 1
        return await super().list(*arguments, **more)


@pytest.fixture(scope="module")
def api_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("server")).running() as process:
        yield process


def config_of(api_server: ServerProcess, servers: list[RelayProcess]) -> ClientConfig:
    first, *others = (f"https://127.0.0.1:{one.port}" for one in servers)
    config = load_kubeconfig(api_server.directory / "kubeconfig")
    return replace(config, server=first, other_servers=tuple(others))


def config_map(name: str, namespace: str = "default") -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace))


@contextlib.asynccontextmanager
async def writing(api_server: ServerProcess, prefix: str) -> AsyncIterator[list[str]]:
    """Create objects during the block, directly at the API server; their names."""
    names: list[str] = []

    async def write() -> None:
        while True:
            name = f"{prefix}-{len(names)}"
            await client.create(CONFIG_MAPS, config_map(name))
            names.append(name)
            await asyncio.sleep(0.02)

    async with ApiClient(load_kubeconfig(api_server.directory / "kubeconfig")) as client:
        task = asyncio.create_task(write())
        try:
            yield names
        finally:
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled():
                task.result()


def in_use(client: ApiClient, servers: list[RelayProcess]) -> RelayProcess:
    """Return the server that the client uses."""
    (found,) = (one for one in servers if client._transport._choice.current.endswith(f":{one.port}"))
    return found


async def left(client: ApiClient, servers: list[RelayProcess], server: RelayProcess) -> None:
    """Wait until the client uses another server."""

    async def is_left() -> bool:
        return in_use(client, servers) is not server

    await until(is_left)


async def test_an_informer_goes_on_at_another_server_without_a_list(api_server: ServerProcess):
    with relays(api_server.port, 3) as servers:
        async with ListCounter(config_of(api_server, servers)) as client, writing(api_server, "seen") as names:
            maps = Informer(client, CONFIG_MAPS, "default", "", "")
            seen: Counter[str] = Counter()
            took: list[str] = []
            maps.on_change(lambda _, new: seen.update([new.metadata.name] if new is not None else []))
            async with running(maps.run()):
                await maps.wait_synced()

                async def until_name_seen(number: int) -> None:
                    await until_seen(lambda: len(names) > number and seen[names[number]], maps)

                for harm in ("kill", "stop", "kill"):
                    server = in_use(client, servers)
                    await until_name_seen(len(names))
                    if harm == "kill":
                        server.kill()
                    else:
                        server.send_signal(signal.SIGSTOP)
                    began = time.monotonic()
                    await left(client, servers, server)
                    await until_name_seen(len(names))
                    took.append(f"{harm} {time.monotonic() - began:.2f} s")
                    server.kill()
                    server.start()
                await until_name_seen(len(names))
            logging.info("until the next event: %s", ", ".join(took))
            assert set(names[: len(seen) - 1]) <= seen.keys()
            assert {name: count for name, count in seen.items() if count != 1} == {}
            assert client.lists == 1


async def test_an_idle_watch_leaves_a_server_that_is_silent(api_server: ServerProcess):
    with relays(api_server.port, 2) as servers:
        async with ListCounter(config_of(api_server, servers)) as client:
            maps = Informer(client, CONFIG_MAPS, "kube-public", "", "")
            async with running(maps.run()):
                await maps.wait_synced()
                server = in_use(client, servers)
                server.send_signal(signal.SIGSTOP)
                await left(client, servers, server)
                async with ApiClient(load_kubeconfig(api_server.directory / "kubeconfig")) as direct:
                    await direct.create(CONFIG_MAPS, config_map("idle", "kube-public"))
                await until_seen(lambda: len(maps), maps)
            assert client.lists == 1


async def test_a_request_that_a_silent_server_has_is_repeated_at_another_one(api_server: ServerProcess):
    with relays(api_server.port, 2) as servers:
        async with ApiClient(config_of(api_server, servers)) as client:
            await client.list(CONFIG_MAPS, "kube-public")
            in_use(client, servers).send_signal(signal.SIGSTOP)
            async with asyncio.timeout(20):  # without another server it is 30 s
                await client.list(CONFIG_MAPS, "kube-public")
            in_use(client, servers).send_signal(signal.SIGSTOP)
            servers[0].send_signal(signal.SIGCONT)
            servers[1].send_signal(signal.SIGCONT)
            await client.list(CONFIG_MAPS, "kube-public")


async def test_a_create_whose_outcome_is_unknown_is_not_repeated():
    created = 0

    async def accept(request: web.Request) -> web.StreamResponse:
        nonlocal created
        created += request.method == "POST"
        if request.transport is not None and request.method == "POST":
            request.transport.abort()
        return web.json_response({"metadata": {"name": "a"}})

    async with serving(accept) as one, serving(accept) as two:
        config = replace(one, other_servers=(two.server,))
        async with ApiClient(config) as client:
            with pytest.raises(Unreachable):
                await client.create(CONFIG_MAPS, config_map("a"))
            assert created == 1
            await client.get(CONFIG_MAPS, "a", "default")


@contextlib.contextmanager
def deaf() -> Iterator[str]:
    """A server whose kernel drops all new connections: the queue of the listener is full."""
    with socket.socket() as listener, contextlib.ExitStack() as stack:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(3):
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(listener.getsockname())
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.parametrize("patience", [transport.CONNECT_SECONDS_BESIDE_OTHERS, 20])
async def test_a_create_goes_to_another_server_when_connections_are_dropped_or_refused(
    patience: float, monkeypatch: pytest.MonkeyPatch
):
    # The longer time never ends: another server is found before.
    monkeypatch.setattr(transport, "CONNECT_SECONDS_BESIDE_OTHERS", patience)

    async def accept(request: web.Request) -> web.StreamResponse:
        return web.json_response({"metadata": {"name": "a"}})

    with deaf() as silent:
        async with serving(accept) as config:
            for number in range(4):  # the order of servers differs between clients
                others = (silent, "http://127.0.0.1:1", config.server)
                several = replace(config, server=others[0], other_servers=others[1:])
                async with asyncio.timeout(20), ApiClient(several, f"client-{number}") as client:
                    await client.create(CONFIG_MAPS, config_map("a"))
                    assert client._transport._choice.current == config.server


async def test_a_server_that_is_not_ready_is_left_for_one_that_is():
    ready = {"one": True, "two": True}
    reads: Counter[str] = Counter()

    def handler(name: str):
        async def answer(request: web.Request) -> web.StreamResponse:
            if request.path == "/readyz":
                return web.Response(status=200 if ready[name] else 500)
            reads[name] += 1
            answer = web.StreamResponse()
            await answer.prepare(request)
            await asyncio.sleep(1000)
            return answer

        return answer

    async def watch(client: ApiClient) -> None:
        while True:
            with contextlib.suppress(Unreachable):
                async with contextlib.aclosing(client.watch(CONFIG_MAPS)) as events:
                    async for _ in events:
                        pass

    async def are_read(count: int) -> bool:
        return len(reads) == count

    async with (
        serving(handler("one")) as one,
        serving(handler("two")) as two,
        ApiClient(replace(one, other_servers=(two.server,))) as client,
        running(watch(client)),
    ):
        await until(lambda: are_read(1))
        (first,) = reads
        (second,) = ready.keys() - {first}
        ready[first] = False
        await until(lambda: are_read(2))
        ready[second] = False
        # The client stays, as no server is ready. The time is that of several probes.
        await asyncio.sleep(1.5)
        assert reads == {first: 1, second: 1}
