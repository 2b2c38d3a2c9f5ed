"""Health and metrics of the proxy, as kube-proxy has them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket

import pytest

from bridgehead.pages import Page, Routes, route, serve
from bridgehead.proxy.operating.health import ProxyHealth
from bridgehead.proxy.operating.metrics import ProxyMetrics
from bridgehead.proxy.operating.serving import health_routes, metrics_routes


def test_health_is_lost_only_when_a_change_waits_too_long() -> None:
    now = [1000.0]
    health = ProxyHealth(60, lambda: now[0])

    now[0] += 1000
    assert health.is_alive, "nothing is known yet: perhaps the API server is away"
    health.queued()
    now[0] += 59
    assert health.is_alive
    now[0] += 1
    assert not health.is_alive, "the first rules, too, have to come to the kernel"
    health.updated((4, 6))
    now[0] += 1000
    assert health.is_alive, "no change, no need to sync"
    health.queued()
    now[0] += 30
    health.queued()
    now[0] += 30
    assert not health.is_alive, "the first change counts, not the last"


NOW = 1795927512.25  # 2026-11-29T04:45:12.25Z


def page(routes: Routes, path: str, accept: str = "") -> Page:
    return route(routes)("GET", path, accept)


def test_health_pages_are_those_of_kube_proxy() -> None:
    """Bodies, statuses and headers of `proxy_health.go`, v1.36."""
    now = [NOW]
    health = ProxyHealth(60, lambda: now[0])
    routes = health_routes(health, ProxyMetrics())
    at, later, late = "2026-11-29T04:45:12.25Z", "2026-11-29T04:45:13Z", "2026-11-29T04:46:13Z"

    found = page(routes, "/healthz")
    assert (found.status, found.content_type, found.headers) == (
        503,
        "application/json",
        (("X-Content-Type-Options", "nosniff"),),
    )
    never = '"lastUpdated":"0001-01-01T00:00:00Z"'
    assert found.body.decode() == f'{{{never},"currentTime":"{at}","nodeEligible":true,"healthy":false}}'
    found = page(routes, "/livez")
    assert (found.status, found.body.decode()) == (
        200,
        f'{{"lastUpdated":"{at}","currentTime":"{at}","healthy":true}}',
    )
    health.updated((4, 6))
    now[0] += 0.75
    status = (
        f'"status":{{"IPv4":{{"lastUpdated":"{at}","healthy":true}},"IPv6":{{"lastUpdated":"{at}","healthy":true}}}}'
    )
    times = f'"lastUpdated":"{later}","currentTime":"{later}"'
    found = page(routes, "/healthz")
    assert (found.status, found.body.decode()) == (200, f'{{{times},"nodeEligible":true,"healthy":true,{status}}}')
    health.is_node_eligible = False
    times = f'"lastUpdated":"{at}","currentTime":"{later}"'
    found = page(routes, "/healthz")
    assert (found.status, found.body.decode()) == (503, f'{{{times},"nodeEligible":false,"healthy":true,{status}}}')
    health.updated((4,))
    health.queued()
    now[0] += 60
    status = f'"status":{{"IPv4":{{"lastUpdated":"{later}","healthy":false}}}}'
    found = page(routes, "/livez")
    assert (found.status, found.body.decode()) == (
        503,
        f'{{"lastUpdated":"{later}","currentTime":"{late}","healthy":false,{status}}}',
    )


def test_pages_for_operators_are_those_of_kubernetes_components() -> None:
    routes = metrics_routes(ProxyMetrics(), "iptables", {}, {"v": "2", "proxy-mode": "iptables"}, lambda: NOW)

    assert [page(routes, path).body for path in ("/healthz", "/healthz/ping", "/proxyMode")] == [
        b"ok",
        b"ok",
        b"iptables",
    ]
    assert page(routes, "/readyz").status == 404
    assert page(routes, "/flagz").body.decode().endswith("\n\nproxy-mode=iptables\nv=2\n")
    assert (
        "Paths: /configz /flagz /healthz /healthz/ping /metrics /proxyMode /statusz\n"
        in page(routes, "/statusz").body.decode()
    )
    form = "application/json;g=config.k8s.io;v=v1beta1;as=Flagz"
    assert json.loads(page(routes, "/flagz", form).body) == {
        "kind": "Flagz",
        "apiVersion": "config.k8s.io/v1beta1",
        "metadata": {"name": "kube-proxy"},
        "flags": {"proxy-mode": "iptables", "v": "2"},
    }
    refused = page(routes, "/statusz", "application/json")
    assert (refused.status, refused.body[:48]) == (406, b"only the following media types are accepted: text"[:48])


async def ask(port: int, request: bytes) -> tuple[int, bytes]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), body


async def until_open(port: int) -> None:
    async with asyncio.timeout(20):
        while True:
            with contextlib.suppress(ConnectionRefusedError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                return await writer.wait_closed()
            await asyncio.sleep(0)


async def test_health_and_metrics_servers_answer() -> None:
    health, metrics = ProxyHealth(60, lambda: 1000.0), ProxyMetrics()
    metrics.service_changes.inc(3)
    routes = {**metrics_routes(metrics, "nftables", {"mode": "nftables"}, {"v": "2"}), **health_routes(health, metrics)}
    with socket.socket() as held:  # nobody else is given the port meanwhile
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        server = asyncio.create_task(serve(("127.0.0.1", port), routes))
        try:
            await until_open(port)
            with pytest.raises(OSError, match=f"Address already in use: '127.0.0.1:{port}'"):
                await serve(("127.0.0.1", port), routes)
            assert (await ask(port, b"GET /healthz HTTP/1.1\r\n\r\n"))[0] == 503, "there are no rules yet"
            assert (await ask(port, b"GET /livez HTTP/1.1\r\n\r\n"))[0] == 200
            health.updated((4,))
            assert (await ask(port, b"GET /healthz HTTP/1.1\r\n\r\n"))[0] == 200
            health.is_node_eligible = False
            assert (await ask(port, b"GET /healthz HTTP/1.1\r\n\r\n"))[0] == 503
            assert (await ask(port, b"GET /livez?x HTTP/1.1\r\n\r\n"))[0] == 200
            assert await ask(port, b"GET /proxyMode HTTP/1.1\r\n\r\n") == (200, b"nftables")
            assert await ask(port, b"GET /configz HTTP/1.1\r\n\r\n") == (
                200,
                b'{"kubeproxy.config.k8s.io": {"mode": "nftables"}}',
            )
            form = b"application/json;g=config.k8s.io;v=v1beta1;as=Flagz"
            status, body = await ask(port, b"GET /flagz HTTP/1.1\r\nX: y\r\naccept: %b\r\n\r\n" % form)
            assert (status, json.loads(body)["flags"]) == (200, {"v": "2"})
            _, body = await ask(port, b"GET /metrics HTTP/1.1\r\n\r\n")
            assert b'kubeproxy_sync_proxy_rules_service_changes_total{ip_family="IPv6"} 3.0\n' in body
            assert b"kubeproxy_network_programming_duration_seconds_bucket" in body
            assert (await ask(port, b"GET /x HTTP/1.1\r\n\r\n"))[0] == 404
            assert (await ask(port, b"POST /healthz HTTP/1.1\r\n\r\n"))[0] == 405
            assert await ask(port, b"HEAD /healthz HTTP/1.1\r\n\r\n") == (503, b"")
        finally:
            server.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await server
