"""Limits and upgrades of HTTP connections, on loopback sockets; users of TLS sessions, in memory."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import ssl
import struct
import time
import warnings
from collections.abc import AsyncIterator, MutableMapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bridgehead.apiserver.http import peer_protocol
from bridgehead.apiserver.http.peer_protocol import PeerProtocol, peer_of
from bridgehead.apiserver.http.request import FRONT_PROXY
from bridgehead.apiserver.http.server import ApiServer, server_context
from bridgehead.apiserver.http.tunnel import tunnel_of
from bridgehead.apiserver.http.user import InvalidCredentials, User
from bridgehead.kubelet.server.authorization import server_context as kubelet_context
from bridgehead.lab.certificates import make_certificates
from bridgehead.lab.plan import LabConfig, LabFiles


async def answer_ok(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


@pytest.fixture
async def port(monkeypatch: pytest.MonkeyPatch, seconds: float) -> AsyncIterator[int]:
    monkeypatch.setattr(PeerProtocol, "header_seconds", seconds)
    server = ApiServer(answer_ok, None, lambda: None)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = asyncio.create_task(server.serve([listener]))
        yield listener.getsockname()[1]
        server.stop()
        await serving


@pytest.mark.parametrize(
    ("seconds", "sent", "answer"),
    [
        (0.05, b"", b""),
        (0.05, b"GET / HTTP/1.1\r\nHost: x\r\n", b"HTTP/1.1 408 Request Timeout"),
        # A second request on the same connection has the same limit as the first.
        (1.0, b"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n", b"HTTP/1.1 200 OK"),
    ],
)
async def test_a_client_with_unfinished_headers_is_disconnected(port: int, sent: bytes, answer: bytes) -> None:
    # All bytes are sent before the server reads, so a busy machine causes no pause between them.
    client = socket.create_connection(("127.0.0.1", port))
    client.sendall(sent)
    reader, writer = await asyncio.open_connection(sock=client)
    async with asyncio.timeout(20):
        received = await reader.read()
    assert received.partition(b"\r\n")[0] == answer
    assert received.count(b" 408 ") == (b"GET" in sent)
    writer.close()
    await writer.wait_closed()


@pytest.mark.parametrize("seconds", [60.0])
async def test_a_reset_connection_is_freed(port: int) -> None:
    for _ in range(5):
        client = socket.create_connection(("127.0.0.1", port))
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        answer = await asyncio.to_thread(client.recv, 1024)
        assert answer.startswith(b"HTTP/1.1 200 OK")
        client.close()  # which resets it
    async with asyncio.timeout(20):
        while any(isinstance(found, PeerProtocol) for found in gc.get_objects()):
            await asyncio.sleep(0.05)
            gc.collect()


@pytest.mark.parametrize("seconds", [60.0])
@pytest.mark.parametrize("method", [b"HEAD", b"GET"])
async def test_an_answer_without_a_body_is_sent(port: int, method: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for _ in range(2):
        writer.write(method + b" / HTTP/1.1\r\nHost: x\r\n\r\n")
        async with asyncio.timeout(20):
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 OK")
    writer.close()
    await writer.wait_closed()


@pytest.mark.parametrize("seconds", [60.0])
async def test_pipelined_requests_are_parsed_when_they_can_be_answered(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = []
    parse = PeerProtocol.on_headers_complete

    def on_headers_complete(self: PeerProtocol) -> None:
        waiting.append(len(self.pipeline))
        parse(self)

    monkeypatch.setattr(PeerProtocol, "on_headers_complete", on_headers_complete)
    forms = (
        b"GET /%d HTTP/1.1\r\n\r\n",
        b"POST /%d HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc",
        b"POST /%d HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n\r\n\r\n\r\n0\r\n\r\n",
    )
    requests = [form % number for number in range(500) for form in forms]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"".join(requests))
    received = b""
    async with asyncio.timeout(60):
        while received.count(b"HTTP/1.1 200 OK") < len(requests):
            received += await reader.readuntil(b"\r\n\r\n")
    assert len(waiting) == len(requests)
    assert max(waiting) <= 4  # those of one piece
    writer.close()
    await writer.wait_closed()


async def test_trailers_are_no_headers() -> None:
    async def answer_names(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        while (await receive()).get("more_body"):
            pass
        names = b",".join(name for name, _ in scope["headers"])
        await send({"type": "http.response.start", "status": 200, "headers": [(b"x-names", names)]})
        await send({"type": "http.response.body", "body": b""})

    server = ApiServer(answer_names, None, lambda: None)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = asyncio.create_task(server.serve([listener]))
        reader, writer = await asyncio.open_connection(*listener.getsockname())
        async with asyncio.timeout(60):
            writer.write(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")
            writer.write(b"1\r\na\r\n0\r\nX-Remote-Group: system:masters\r\n\r\n")
            assert b"X-Names: transfer-encoding\r\n" in await reader.readuntil(b"\r\n\r\n")
            writer.close()
            await writer.wait_closed()
        server.stop()
        await serving


async def _refuse_all(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
    headers = [(b"x-kubernetes-pf-flowschema-uid", b"u"), (b"audit-id", b"a"), (b"content-length", b"2")]
    kind = "websocket.http.response" if scope["type"] == "websocket" else "http.response"
    await receive()
    await send({"type": f"{kind}.start", "status": 422, "headers": headers})
    await send({"type": f"{kind}.body", "body": b"no"})


_UPGRADE = (
    b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)
_REFUSED = [b"HTTP/1.1 422 Unprocessable Entity", b"Audit-Id: a", b"X-Kubernetes-Pf-Flowschema-Uid: u"]


@pytest.mark.parametrize(
    ("sent", "expected", "body"),
    [
        (
            b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n",
            [*_REFUSED, b"Content-Length: 2", b"Connection: close"],
            b"no",
        ),
        (b"HEAD / HTTP/1.1\r\nConnection: close\r\n\r\n", [*_REFUSED, b"Content-Length: 2", b"Connection: close"], b""),
        (_UPGRADE, _REFUSED, b"no"),
        (
            b"nonsense\r\n\r\n",
            [b"HTTP/1.1 400 Bad Request", b"Content-Type: text/plain; charset=utf-8", b"Connection: close"],
            b"400 Bad Request",
        ),
    ],
    ids=("get", "head", "websocket", "nonsense"),
)
async def test_heads_are_written_as_go_writes_them(sent: bytes, expected: list[bytes], body: bytes) -> None:
    server = ApiServer(_refuse_all, None, lambda: None)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = asyncio.create_task(server.serve([listener]))
        reader, writer = await asyncio.open_connection(*listener.getsockname())
        async with asyncio.timeout(60):
            writer.write(sent)
            head, _, rest = (await reader.read()).partition(b"\r\n\r\n")
            writer.close()
            await writer.wait_closed()
        server.stop()
        await serving
    lines = head.split(b"\r\n")
    assert [line for line in lines if line in expected] == expected
    assert all(line[:1].isupper() for line in lines)
    assert rest == body


async def test_the_request_that_is_answered_learns_of_a_disconnect() -> None:
    began, left = asyncio.Event(), asyncio.Event()

    async def answer_until_disconnect(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        began.set()
        while (await receive())["type"] != "http.disconnect":
            pass
        assert scope["path"] == "/first"  # the other request is never begun
        left.set()

    server = ApiServer(answer_until_disconnect, None, lambda: None)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = asyncio.create_task(server.serve([listener]))
        _, writer = await asyncio.open_connection(*listener.getsockname())
        writer.write(b"GET /first HTTP/1.1\r\nHost: x\r\n\r\nGET /second HTTP/1.1\r\nHost: x\r\n\r\n")
        async with asyncio.timeout(20):
            await began.wait()
            writer.close()
            await writer.wait_closed()
            await left.wait()
        server.stop()
        await serving


class _Upgrading:
    """Accepts upgrades; answers other requests with 200."""

    def takes_upgrade(self, path: str) -> bool:
        return True

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        tunnel = tunnel_of(scope)
        if tunnel is None:
            await answer_ok(scope, receive, send)
            return
        assert (scope["path"], scope["query_string"], scope["method"]) == ("/a b", b"c=d", "POST")
        await tunnel.start(b"HTTP/1.1 101 Switching Protocols\r\n\r\n")
        assert await tunnel.read() == b"{}", "a client may send before it has the answer"


@pytest.mark.parametrize(
    ("upgrade", "status"),
    [
        ("SPDY/3.1", b"HTTP/1.1 101 Switching Protocols"),
        # A server may ignore an upgrade (RFC 9110, 7.8).
        ("h2c", b"HTTP/1.1 200 OK"),
    ],
)
async def test_an_upgrade_is_answered_and_leaves_no_warning(
    upgrade: str, status: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    server = ApiServer(_Upgrading(), None, lambda: None)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = asyncio.create_task(server.serve([listener]))
        reader, writer = await asyncio.open_connection(*listener.getsockname())
        head = f"POST /a%20b?c=d HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: {upgrade}\r\n"
        writer.write(head.encode() + b"X-Stream-Protocol-Version: portforward.k8s.io\r\nContent-Length: 2\r\n\r\n{}")
        async with asyncio.timeout(20):
            assert (await reader.readline()).rstrip() == status
        writer.close()
        await writer.wait_closed()
        server.stop()
        await serving
    assert not [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")]


async def _echo(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
    """Answers a request with its method, path and body; refuses a WebSocket with 403."""
    if scope["type"] == "websocket":
        await send({"type": "websocket.http.response.start", "status": 403, "headers": [(b"content-length", b"0")]})
        await send({"type": "websocket.http.response.body", "body": b""})
        return
    body, message = b"", {"more_body": True}
    while message.get("more_body"):
        message = await receive()
        body += message["body"]
    text = f"{scope['method']} {scope['path']} ".encode() + body
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(text))]})
    await send({"type": "http.response.body", "body": text})


class _SocketsBelowA:
    """An application that takes WebSockets below /a."""

    takes_socket = staticmethod(lambda path, query: path.startswith("/a"))

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        await _echo(scope, receive, send)


WEBSOCKET = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
KEY = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"


@pytest.mark.parametrize(
    ("request_line", "headers", "body", "status", "answer"),
    [
        ("GET /a", WEBSOCKET + KEY, b"", 403, b""),
        ("GET /b", WEBSOCKET + KEY, b"", 200, b"GET /b "),
        ("POST /a", WEBSOCKET + KEY, b"", 200, b"POST /a "),
        ("DELETE /a", WEBSOCKET + KEY, b"", 200, b"DELETE /a "),
        ("POST /a", WEBSOCKET + KEY + "Content-Length: 5\r\n", b"hello", 200, b"POST /a hello"),
        (
            "PATCH /b",
            WEBSOCKET + KEY + "Transfer-Encoding: chunked\r\n",
            b"3\r\nabc\r\n0\r\n\r\n",
            200,
            b"PATCH /b abc",
        ),
        ("GET /a", WEBSOCKET + KEY + "Content-Length: 5\r\n", b"hello", 200, b"GET /a hello"),
        # Handshakes that the library would refuse itself, before the application can authenticate anybody.
        ("GET /a", WEBSOCKET, b"", 200, b"GET /a "),
        ("GET /a", WEBSOCKET + "Sec-WebSocket-Key: short\r\n", b"", 200, b"GET /a "),
        ("GET /a", WEBSOCKET + KEY + "Sec-WebSocket-Version: 12\r\n", b"", 200, b"GET /a "),
        ("POST /b", "Connection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 2\r\n", b"{}", 200, b"POST /b {}"),
    ],
)
async def test_an_upgrade_that_is_not_taken_is_an_ordinary_request(
    request_line: str, headers: str, body: bytes, status: int, answer: bytes
) -> None:
    """The application decides about every answer, with the request's own method and body."""
    server = ApiServer(_SocketsBelowA(), None, lambda: None)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = asyncio.create_task(server.serve([listener]))
        reader, writer = await asyncio.open_connection(*listener.getsockname())
        async with asyncio.timeout(20):
            for _ in range(2 if status == 200 else 1):  # the connection stays
                writer.write(f"{request_line} HTTP/1.1\r\nHost: x\r\n{headers}\r\n".encode())
                await asyncio.sleep(0)
                writer.write(body)
                head = await reader.readuntil(b"\r\n\r\n")
                assert head.split()[1] == str(status).encode()
                assert await reader.readexactly(len(answer)) == answer
        writer.close()
        await writer.wait_closed()
        server.stop()
        await serving


def connect(
    server: ssl.SSLContext, client: ssl.SSLContext, session: ssl.SSLSession | None
) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Shake hands in memory; return the server's and the client's end, which has a ticket."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    near = client.wrap_bio(to_client, to_server, server_hostname="127.0.0.1", session=session)
    far = server.wrap_bio(to_server, to_client, server_side=True)
    for end in (near, far, near, far):
        with contextlib.suppress(ssl.SSLWantReadError):
            end.do_handshake()
    far.write(b"x")
    assert near.read(1) == b"x"
    return far, near


@pytest.fixture
def pki(tmp_path: Path) -> Path:
    make_certificates(LabConfig(name="tls", nodes=1, port=6443), LabFiles(tmp_path))
    return LabFiles(tmp_path).pki


def client_context(pki: Path, name: str = "controllers") -> ssl.SSLContext:
    """Return the TLS settings of a client with the certificate of this name."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.load_verify_locations(pki / "ca.crt")
    client.load_cert_chain(pki / f"{name}.crt", pki / f"{name}.key")
    return client


@pytest.mark.parametrize(
    ("version", "ciphers", "cipher"),
    [
        (ssl.TLSVersion.TLSv1_3, "", "TLS_AES_256_GCM_SHA384"),
        (ssl.TLSVersion.TLSv1_2, "ALL", "ECDHE-ECDSA-AES128-GCM-SHA256"),
        (ssl.TLSVersion.TLSv1_2, "ECDHE-ECDSA-CHACHA20-POLY1305", "ECDHE-ECDSA-CHACHA20-POLY1305"),
        (ssl.TLSVersion.TLSv1_2, "ECDHE-ECDSA-AES256-SHA:ECDHE-ECDSA-AES128-SHA256", ""),  # CBC
        (ssl.TLSVersion.TLSv1_1, "ALL:@SECLEVEL=0", ""),
    ],
)
def test_a_client_gets_authenticated_encryption_or_no_connection(
    pki: Path, version: ssl.TLSVersion, ciphers: str, cipher: str
) -> None:
    client = client_context(pki)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of the old version
        client.minimum_version = ssl.TLSVersion.TLSv1
        client.maximum_version = version
    if ciphers:
        client.set_ciphers(ciphers)
    files = pki / "apiserver.crt", pki / "apiserver.key", pki / "client-ca.crt"
    for server in (server_context(*files), kubelet_context(*files)):
        if cipher:
            far, _ = connect(server, client, None)
            assert (far.cipher() or ("",))[0] == cipher
        else:
            with pytest.raises(ssl.SSLError):
                connect(server, client, None)


def test_a_session_ends_with_its_certificate(pki: Path) -> None:
    server, client = (
        server_context(pki / "apiserver.crt", pki / "apiserver.key", pki / "client-ca.crt"),
        client_context(pki),
    )

    def transport(connection: ssl.SSLObject) -> Any:
        return SimpleNamespace(get_extra_info={"ssl_object": connection}.get)

    first, ticket_holder = connect(server, client, None)
    resumed, _ = connect(server, client, ticket_holder.session)
    assert [first.session_reused, resumed.session_reused] == [False, True]
    for connection in (first, resumed):
        peer = peer_of(transport(connection))
        assert isinstance(peer.user, User)
        assert peer.user.name == "system:kube-controller-manager"
        assert time.time() < peer.until < time.time() + 3650 * 86400


def test_front_proxies_have_a_ca_of_their_own(pki: Path) -> None:
    server = server_context(
        pki / "apiserver.crt", pki / "apiserver.key", pki / "client-ca.crt", pki / "front-proxy-ca.crt"
    )
    found = {}
    for name in ("controllers", "front-proxy-client"):
        client = client_context(pki, name)
        _, ticket_holder = connect(server, client, None)
        resumed, _ = connect(server, client, ticket_holder.session)
        assert resumed.session_reused
        transport: Any = SimpleNamespace(get_extra_info={"ssl_object": resumed}.get)
        found[name] = peer_of(transport)
    user, proxy = found["controllers"], found["front-proxy-client"]
    assert isinstance(user.user, User)
    assert user.front_proxy is None
    assert proxy.front_proxy == "front-proxy-client"
    # A front proxy is no user: without its headers, the certificate is not valid.
    assert isinstance(proxy.user, InvalidCredentials)


@pytest.mark.parametrize(
    ("holder", "valid"),
    [("controllers", b"system:kube-controller-manager"), ("front-proxy-client", b"front-proxy-client")],
)
async def test_a_client_is_refused_once_its_certificate_has_expired(
    pki: Path, monkeypatch: pytest.MonkeyPatch, holder: str, valid: bytes
) -> None:
    async def answer_user(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        peer = scope["state"]["peer"]
        name = scope["state"].get(FRONT_PROXY) or (peer.name if isinstance(peer, User) else str(peer))
        await send({"type": "http.response.start", "status": 200, "headers": [(b"x-user", name.encode())]})
        await send({"type": "http.response.body", "body": b""})

    context = server_context(
        pki / "apiserver.crt", pki / "apiserver.key", pki / "client-ca.crt", pki / "front-proxy-ca.crt"
    )
    server = ApiServer(answer_user, context, lambda: None)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = asyncio.create_task(server.serve([listener]))
        reader, writer = await asyncio.open_connection(*listener.getsockname(), ssl=client_context(pki, holder))
        async with asyncio.timeout(60):
            expired = b"the client certificate has expired"
            for now, user in ((time.time(), valid), (1e11, expired)):  # the year 5138
                monkeypatch.setattr(peer_protocol, "time", SimpleNamespace(time=lambda now=now: now))
                writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                assert b"X-User: " + user in await reader.readuntil(b"0\r\n\r\n")
            writer.close()
            await writer.wait_closed()
        server.stop()
        await serving
