"""The subresource `proxy` of pods, services and nodes, with real servers behind it.

Each test runs in a network namespace of its own, whose loopback has the addresses of pods.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import os
import re
import ssl
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from yarl import URL

from .api_world import DEADLINE, ApiWorld, until
from .certificates import server_certificate
from .namespaced import in_namespace
from .proxy_backends import PAGE, POD_IP, Never, add_addresses, application, backend, kubectl, start_kubectl

pytestmark = [pytest.mark.integration, pytest.mark.needs("ip", "unshare")]

_PODS = "/api/v1/namespaces/default/pods"
_SERVICES = "/api/v1/namespaces/default/services"


class Client:
    """An HTTP client of the API server, with the admin's token."""

    def __init__(self, server: str, session: aiohttp.ClientSession) -> None:
        self.server = server
        self.session = session

    async def call(self, method: str, path: str, **options: Any) -> tuple[int, Any, bytes]:
        """Return the status, the headers and the body."""
        url = URL(self.server + path, encoded=True)
        async with self.session.request(method, url, allow_redirects=False, **options) as response:
            return response.status, response.headers, await response.read()

    async def create(self, path: str, obj: dict[str, Any]) -> None:
        status, _, body = await self.call("POST", path, json=obj)
        assert status == 201, body

    async def set_status(self, path: str, status: dict[str, Any]) -> None:
        headers = {"Content-Type": "application/merge-patch+json"}
        code, _, body = await self.call("PATCH", f"{path}/status", json={"status": status}, headers=headers)
        assert code == 200, body


@contextlib.asynccontextmanager
async def proxy_world() -> AsyncIterator[tuple[ApiWorld, Client]]:
    """An API server with the pod `web` (its first port is 8080) and the Service `web` (ports main and tls)."""
    async with (
        contextlib.AsyncExitStack() as stack,
        aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=False),
            headers={"Authorization": "Bearer admin"},
            auto_decompress=False,
        ) as session,
    ):
        # kubectl sends no token without TLS.
        world = ApiWorld(server_certificate())
        stack.push_async_callback(world.close)
        await world.start()
        client = Client(world.config.server, session)
        await client.create("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
        containers = [{"name": "a", "image": "i"}, {"name": "b", "image": "i", "ports": [{"containerPort": 8080}]}]
        await client.create(_PODS, {"metadata": {"name": "web"}, "spec": {"containers": containers}})
        await client.set_status(f"{_PODS}/web", {"podIP": POD_IP, "podIPs": [{"ip": POD_IP}]})
        ports = [{"name": "main", "port": 80}, {"name": "tls", "port": 443}]
        await client.create(_SERVICES, {"metadata": {"name": "web"}, "spec": {"ports": ports}})
        reference = {"kind": "Pod", "name": "web", "namespace": "default"}
        endpoints = {
            "metadata": {"name": "web-1", "labels": {"kubernetes.io/service-name": "web"}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["10.244.1.99"]}, {"addresses": [POD_IP], "targetRef": reference}],
            "ports": [{"name": "main", "port": 8080}, {"name": "tls", "port": 8443}],
        }
        await client.create("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", endpoints)
        yield world, client


@in_namespace
async def test_requests_and_answers_pass_through() -> None:
    add_addresses(POD_IP)
    never = Never()
    async with proxy_world() as (_, client), backend(POD_IP, 8080, application(never)):
        for where in (f"{_PODS}/web", f"{_PODS}/http:web:8080", f"{_SERVICES}/web:main", f"{_SERVICES}/web:80"):
            for method in ("DELETE", "GET", "OPTIONS", "PATCH", "POST", "PUT"):
                status, headers, body = await client.call(method, f"{where}/proxy/some/path?a=b%2Fc&a=d", data=b"x")
                seen = json.loads(body)
                assert (status, seen["method"], seen["path"]) == (200, method, "/some/path?a=b%2Fc&a=d")
                assert seen["length"] == 1
            status, headers, body = await client.call("HEAD", f"{where}/proxy/some/path")
            assert (status, headers["X-Backend"], body) == (200, "echo", b"")
            for method in ("GET", "HEAD"):
                status, headers, _ = await client.call(method, f"{where}/proxy?method=GET")
                assert (status, headers["Location"]) == (301, f"{where}/proxy/?method=GET")
            status, _, body = await client.call("POST", f"{where}/proxy?a=1")
            assert (status, json.loads(body)["path"]) == (200, "/?a=1")
        assert (await client.call("CONNECT", f"{_PODS}/web/proxy/"))[0] in (400, 405)

        sent = {"X-Mine": "1", "Connection": "X-Drop", "X-Drop": "1", "Impersonate-User": "eve", "X-Remote-User": "eve"}
        sent |= {"Impersonate-Group": "system:masters", "Te": "trailers", "Upgrade-Insecure-Requests": "1"}
        _, headers, body = await client.call("GET", f"{_PODS}/web/proxy//a/../b%20c/", headers=sent)
        seen = json.loads(body)
        assert seen["path"] == "/b%20c/"
        given = dict(seen["headers"])
        assert given["x-forwarded-uri"] == f"{_PODS}/web/proxy/b c/"
        assert given["x-forwarded-for"] == "127.0.0.1"
        assert given["host"] == client.server.removeprefix("https://")
        assert (given["x-mine"], given["te"]) == ("1", "trailers")
        assert not {"authorization", "x-drop", "impersonate-user", "impersonate-group", "x-remote-user"} & given.keys()
        assert (headers["X-Backend"], headers.getall("Cache-Control")) == ("echo", ["no-cache, private"])
        assert "Access-Control-Allow-Origin" not in headers
        assert len(headers.getall("Date")) == 1

        # Bodies are not limited, and not held until they are complete.
        status, _, body = await client.call("POST", f"{_SERVICES}/web:main/proxy/upload", data=bytes(5 << 20))
        assert (status, json.loads(body)["length"]) == (200, 5 << 20)
        status, headers, body = await client.call("GET", f"{_PODS}/web/proxy/large")
        assert (status, headers["Content-Length"], len(body)) == (200, str(8 << 20), 8 << 20)
        lines: asyncio.Queue[bytes] = asyncio.Queue()

        async def talk() -> AsyncIterator[bytes]:
            while line := await lines.get():
                yield line

        await lines.put(b"one\n")
        async with client.session.post(f"{client.server}{_PODS}/web/proxy/ticks", data=talk()) as response:
            assert response.headers["Content-Type"] == "text/event-stream"
            assert await response.content.readuntil(b"\n\n") == b"data: one\n\n"
            await lines.put(b"two\n")
            assert await response.content.readuntil(b"\n\n") == b"data: two\n\n"
            await lines.put(b"")
            assert await response.content.read() == b""
        with pytest.raises(aiohttp.ClientPayloadError):
            await client.call("GET", f"{_PODS}/web/proxy/breaks")
        # A request ends with its client.
        for path in ("never", "never?begins"):
            waiting = asyncio.create_task(client.call("GET", f"{_PODS}/web/proxy/{path}"))
            async with asyncio.timeout(40):
                await never.began.wait()
                waiting.cancel()
                await never.ended.wait()
            never.began.clear()
            never.ended.clear()


@in_namespace
async def test_links_lead_through_the_proxy() -> None:
    add_addresses(POD_IP)
    async with proxy_world() as (_, client), backend(POD_IP, 8080, application()):
        for where in (f"{_PODS}/web:8080/proxy", f"{_SERVICES}/http:web:main/proxy"):
            expected = f'<a href="{where}/rewriteme">test</a>'.encode()
            for path in ("/page", "/dir/"):
                _, headers, body = await client.call("GET", where + path)
                assert (headers["Content-Type"], body) == ("text/html; charset=utf-8", expected)
            _, headers, body = await client.call("GET", f"{where}/zipped")
            assert headers["Content-Encoding"] == "gzip"
            assert gzip.decompress(body) == expected * 20_000
            status, headers, _ = await client.call("GET", f"{where}/redirect")
            assert (status, headers["Location"]) == (302, f"{where}/elsewhere/?a=1")


@in_namespace
async def test_tls_and_upgrades() -> None:
    add_addresses(POD_IP)
    never = Never()
    async with (
        proxy_world() as (_, client),
        backend(POD_IP, 8080, application(never)),
        backend(POD_IP, 8443, application(), ssl_context=server_certificate()),
    ):

        async def is_counted() -> bool:
            _, _, page = await client.call("GET", "/metrics")
            open_now = re.findall(rb'^apiserver_longrunning_requests{.*verb="CONNECT".*} (.*)$', page, re.MULTILINE)
            return sum(map(float, open_now)) == 1

        for where in (f"{_PODS}/https:web:8443", f"{_SERVICES}/https:web:tls", f"{_SERVICES}/https:web:443"):
            _, _, body = await client.call("GET", f"{where}/proxy/page")
            assert body == PAGE.replace("/rewriteme", f"{where}/proxy/rewriteme").encode()
        for where in (f"{_PODS}/web", f"{_SERVICES}/web:main", f"{_PODS}/https:web:8443"):
            url = f"{client.server}{where}/proxy/socket"
            async with client.session.ws_connect(url, protocols=("other", "chat")) as messages:
                assert messages.protocol == "chat"
                await until(is_counted)
                names = set(await messages.receive_json())
                assert {"x-forwarded-for", "sec-websocket-key"} <= names
                assert "authorization" not in names
                for text in ("x", "y" * 300_000):
                    await messages.send_str(text)
                    assert await messages.receive_str() == text
        # Any protocol passes; a refusal is the answer.
        async with client.session.get(
            f"{client.server}{_PODS}/web/proxy/teapot", headers={"Connection": "Upgrade", "Upgrade": "SPDY/3.1"}
        ) as response:
            assert (response.status, await response.text()) == (418, "no sockets here")
        upgrade = {"Connection": "Upgrade", "Upgrade": "x"}
        status, _, body = await client.call("GET", f"{_PODS}/web/proxy/", headers=upgrade)
        assert (status, json.loads(body)["message"]) == (500, "invalid upgrade response: status code 200")
        status, _, body = await client.call("GET", f"{_PODS}/web:1/proxy/", headers=upgrade)
        text = f"error dialing backend: dial tcp {POD_IP}:1: connect: connection refused"
        assert (status, json.loads(body)["message"]) == (500, text)
        # The target gets no body, and does not wait for one.
        status, _, body = await client.call("POST", f"{_PODS}/web/proxy/", headers=upgrade, data=b"x" * 9)
        assert (status, json.loads(body)["message"]) == (500, "invalid upgrade response: status code 200")
        # A status without a name passes, too.
        assert (await client.call("GET", f"{_PODS}/web/proxy/unnamed", headers=upgrade))[0] == 599
        # A request ends with its client, also before the target has answered.
        waiting = asyncio.create_task(client.call("GET", f"{_PODS}/web/proxy/never", headers=upgrade))
        async with asyncio.timeout(40):
            await never.began.wait()
            waiting.cancel()
            await never.ended.wait()
        h2c = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2-Settings": "AA"}
        status, _, body = await client.call("GET", f"{_PODS}/web/proxy/", headers=h2c)
        assert (status, json.loads(body)["path"]) == (200, "/")


@in_namespace
async def test_an_upgraded_connection_loses_no_bytes_when_one_side_ends_it() -> None:
    add_addresses(POD_IP)
    data, got = os.urandom(2_000_000), asyncio.Queue[bytes]()
    has_left = asyncio.Event()  # the side that sends has sent everything and closed its connection

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
        if b"/down" in head:
            writer.write(data)
            writer.close()
            has_left.set()
        else:
            await has_left.wait()
            got.put_nowait(await reader.read())
            writer.close()

    async with proxy_world() as (world, _):
        for port, tls in ((8080, None), (8443, server_certificate())):
            scheme = "http" if tls is None else "https"
            async with await asyncio.start_server(serve, POD_IP, port, ssl=tls), asyncio.timeout(DEADLINE):
                for direction in ("up", "down"):
                    has_left.clear()
                    unverified = ssl.create_default_context()
                    unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
                    address = URL(world.config.server)
                    reader, writer = await asyncio.open_connection(address.host, address.port, ssl=unverified)
                    path = f"{_PODS}/{scheme}:web:{port}/proxy/{direction}"
                    head = f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer admin\r\n"
                    writer.write(f"{head}Connection: Upgrade\r\nUpgrade: x\r\n\r\n".encode())
                    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
                    if direction == "up":
                        writer.write(data)
                    else:
                        await has_left.wait()
                        assert await reader.read() == data
                    writer.close()
                    has_left.set()
                    with contextlib.suppress(ConnectionError, ssl.SSLError):
                        await writer.wait_closed()
                    if direction == "up":
                        assert await got.get() == data


@in_namespace
async def test_refusals() -> None:
    add_addresses(POD_IP)
    async with proxy_world() as (_, client), backend(POD_IP, 8080, application()):

        async def refused(path: str, token: str = "admin") -> tuple[int, str, str]:
            code, _, body = await client.call("GET", path, headers={"Authorization": f"Bearer {token}"})
            status = json.loads(body)
            return code, status["reason"], status["message"]

        dialing = "error trying to reach service: dial tcp"
        assert await refused(f"{_PODS}/web:9/proxy/") == (
            503,
            "ServiceUnavailable",
            f"{dialing} {POD_IP}:9: connect: connection refused",
        )
        assert await refused(f"{_PODS}/web:nine/proxy/") == (
            503,
            "ServiceUnavailable",
            f"{dialing}: lookup tcp/nine: unknown port",
        )
        assert await refused(f"{_PODS}/https:web:8080/proxy/") == (
            503,
            "ServiceUnavailable",
            "error trying to reach service: tls: first record does not look like a TLS handshake",
        )
        assert await refused(f"{_PODS}/none/proxy/") == (404, "NotFound", 'pods "none" not found')
        assert await refused(f"{_PODS}/ftp:web:1/proxy/") == (400, "BadRequest", 'invalid pod request "ftp:web:1"')
        assert await refused(f"{_SERVICES}/web:81/proxy/") == (
            503,
            "ServiceUnavailable",
            'no service port 81 found for service "web"',
        )
        assert await refused(f"{_SERVICES}/web/proxy/") == (
            503,
            "ServiceUnavailable",
            'no endpoints available for service "web"',
        )
        assert await refused(f"{_SERVICES}/none:80/proxy/") == (404, "NotFound", 'services "none" not found')
        assert await refused(f"{_SERVICES}/none/proxy/") == (404, "NotFound", 'endpoints "none" not found')
        assert await refused(f"{_SERVICES}/none:http/proxy/") == (404, "NotFound", 'endpoints "none" not found')
        # The EndpointSlice of this Service names no pod.
        assert await refused(f"{_SERVICES}/https:kubernetes:https/proxy/") == (
            503,
            "ServiceUnavailable",
            'no endpoints available for service "https:kubernetes:https"',
        )
        for address in ("127.0.0.1", "169.254.169.254", "::1"):
            await client.set_status(f"{_PODS}/web", {"podIP": address, "podIPs": [{"ip": address}]})
            assert await refused(f"{_PODS}/web:80/proxy/") == (400, "BadRequest", "address not allowed")
        code, _, body = await client.call("GET", f"{_PODS}/web/proxy/", headers={"Impersonate-User": "bob"})
        text = 'pods "web" is forbidden: User "bob" cannot get resource "pods/proxy" in API group "" in the namespace '
        assert (code, json.loads(body)["message"]) == (403, text + '"default"')


@in_namespace
async def test_w47_kubectl_proxy_and_cluster_info() -> None:
    """W47: `kubectl proxy` and `kubectl get --raw` of a Service; the URLs of `kubectl cluster-info`."""
    add_addresses(POD_IP)
    async with proxy_world() as (world, client), backend(POD_IP, 8080, application()):
        where = f"{_SERVICES}/web:80/proxy"
        assert await kubectl(world, "get", "--raw", f"{where}/page") == f'<a href="{where}/rewriteme">test</a>'
        errors = await kubectl(world, "get", "--raw", f"{_PODS}/web:9/proxy/", fails=True)
        assert errors.startswith("Error from server (ServiceUnavailable): error trying to reach service: dial tcp")
        process = await start_kubectl(world, "proxy", "--port=0")
        try:
            assert process.stdout is not None
            local = (await process.stdout.readline()).decode().split()[-1]
            async with aiohttp.ClientSession() as browser:
                async with browser.get(f"http://{local}{where}/page") as response:
                    assert await response.text() == f'<a href="{where}/rewriteme">test</a>'
                async with browser.get(f"http://{local}{where}", allow_redirects=False) as response:
                    assert (response.status, response.headers["Location"]) == (301, f"{where}/")
        finally:
            process.terminate()
            await process.wait()
        # cluster-info lists the Services of kube-system that have this label.
        labels = {"kubernetes.io/cluster-service": "true", "kubernetes.io/name": "WebUI"}
        system = "/api/v1/namespaces/kube-system/services"
        await client.create(
            system, {"metadata": {"name": "ui", "labels": labels}, "spec": {"ports": [{"name": "main", "port": 80}]}}
        )
        assert f"{client.server}{system}/ui:main/proxy" in await kubectl(world, "cluster-info")
