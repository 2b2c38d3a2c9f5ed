"""healthCheckNodePort: what kube-proxy would answer, where, and what happens when somebody else has the port."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from bridgehead.objects.kinds import ENDPOINT_SLICES, NODES, SERVICES
from bridgehead.proxy.operating import health_ports
from bridgehead.proxy.operating.health_ports import local_addresses
from tests.integration.namespaced import in_namespace, sh
from tests.unit.proxy.agent_world import CONFIG, ScriptedApi, ScriptedMode, eventually, running, service, slice_of

pytestmark = pytest.mark.integration

PORT = 32000


def local(name: str = "web", address: str = "10.96.0.1", port: int = PORT) -> dict[str, Any]:
    return service(name, address, type="LoadBalancer", externalTrafficPolicy="Local", healthCheckNodePort=port)


def ask(host: str = "127.0.0.1", port: int = PORT, method: str = "GET") -> tuple[int, Mapping[str, str], str]:
    connection = http.client.HTTPConnection(host, port, timeout=20)
    try:
        connection.request(method, "/")
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode()
    finally:
        connection.close()


async def status(host: str = "127.0.0.1", port: int = PORT) -> int:
    """0: nobody listens, or not to the end."""
    try:
        return (await asyncio.to_thread(ask, host, port))[0]
    except (ConnectionError, http.client.HTTPException):
        return 0


async def becomes(wanted: int, host: str = "127.0.0.1", port: int = PORT) -> None:
    found = [-1]
    while found[-1] != wanted:  # the test has a deadline
        found.append(await status(host, port))


@in_namespace
async def test_the_answer_depends_on_local_endpoints() -> None:
    api, mode = ScriptedApi(), ScriptedMode()
    api.put(SERVICES, local())
    api.put(ENDPOINT_SLICES, slice_of("web", "10.244.1.1", "10.244.1.2"))
    async with running(api, mode) as agent:
        await becomes(200)
        code, headers, body = await asyncio.to_thread(ask)
        assert headers["Content-Type"] == "application/json"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["X-Load-Balancing-Endpoint-Weight"] == "2"
        assert body == (
            '{\n\t"service": {\n\t\t"namespace": "default",\n\t\t"name": "web"\n\t},\n'
            '\t"localEndpoints": 2,\n\t"serviceProxyHealthy": true\n}'
        )
        assert await status("::1") == 200
        assert (await asyncio.to_thread(ask, method="POST"))[0] == 200

        elsewhere = slice_of("web", "10.244.2.1")
        elsewhere["endpoints"][0]["nodeName"] = "node2"
        api.put(ENDPOINT_SLICES, elsewhere)
        await becomes(503)
        assert json.loads((await asyncio.to_thread(ask))[2])["localEndpoints"] == 0

        api.put(ENDPOINT_SLICES, slice_of("web", "10.244.1.1"))
        await becomes(200)
        agent.health._timeout = 0.0  # as if a change had waited too long
        agent.health.queued()
        code, headers, body = await asyncio.to_thread(ask)
        assert (code, json.loads(body)["serviceProxyHealthy"]) == (503, False)

        api.put(SERVICES, local() | {"spec": local()["spec"] | {"externalTrafficPolicy": "Cluster"}})
        await becomes(0)


@in_namespace
async def test_a_port_in_use_is_reported_and_retried() -> None:
    health_ports.RETRY_SECONDS = 0.05
    api, mode = ScriptedApi(), ScriptedMode()
    with socket.create_server(("0.0.0.0", PORT)):
        api.put(SERVICES, local())
        api.put(SERVICES, local("other", "10.96.0.2", PORT + 1))
        api.put(ENDPOINT_SLICES, slice_of("web", "10.244.1.1"))
        async with running(api, mode):
            await eventually(lambda: any(e.reason == "FailedToStartServiceHealthcheck" for e in api.events))
            (event,) = (e for e in api.events if e.reason == "FailedToStartServiceHealthcheck")
            assert (event.involved_object.name, event.type) == ("web", "Warning")
            assert event.message == (
                f'node node1 failed to start healthcheck "default/web" on port {PORT}: Address already in use'
            )
            await becomes(503, port=PORT + 1)  # another Service's is served
    async with running(api, mode):
        await becomes(200)
        api.delete(SERVICES, "web")
        await becomes(0)


@in_namespace
async def test_health_ports_listen_on_node_port_addresses_only() -> None:
    sh("ip link add veth0 type veth peer name veth1; ip link set veth0 up; ip address add 10.0.0.201/24 dev veth0")
    assert local_addresses(None) == [""]
    assert local_addresses(("10.0.0.0/8",)) == ["10.0.0.201"]
    sh("ip address add 10.0.0.202/24 dev veth0")
    api, mode = ScriptedApi(), ScriptedMode()
    api.put(SERVICES, local())
    put_node(api, "10.0.0.201")
    async with running(api, mode, config=replace(CONFIG, node_port_addresses=("primary",))):
        await becomes(503, "10.0.0.201")
        assert await status("127.0.0.1") == 0
        put_node(api, "10.0.0.202")
        await becomes(503, "10.0.0.202")
        await becomes(0, "10.0.0.201")


def put_node(api: ScriptedApi, address: str) -> None:
    addresses = [{"type": "InternalIP", "address": address}]
    api.put(NODES, {"metadata": {"name": "node1"}, "status": {"addresses": addresses}})
