"""An HTTPS server for tests of webhooks: its answers are those of the test, also invalid ones."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import datetime
import ipaddress
import json
import ssl
import tempfile
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

Json = dict[str, Any]
# Gets the decoded body and returns what to answer: an object for JSON, bytes for the whole answer on the wire, None to
# answer nothing until the client leaves.
Handler = Callable[[Json], Awaitable[Json | bytes | None] | Json | bytes | None]

SERVER_NAMES = ("hook.default.svc",)


@lru_cache(maxsize=4)
def certificates(name: str = "ca", server_names: tuple[str, ...] = SERVER_NAMES) -> tuple[bytes, bytes]:
    """Return a CA's certificate, and certificate and key of a server (PEM). Another `name` gives another CA."""
    authority, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)

    def builder(subject: x509.Name, public: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        made = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(public)
        made = made.serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(days=1))
        return made.not_valid_after(now + datetime.timedelta(days=1))

    root = builder(issuer, authority.public_key()).add_extension(x509.BasicConstraints(True, None), critical=True)
    names: list[x509.GeneralName] = [x509.DNSName(one) for one in server_names]
    names.append(x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
    leaf = builder(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "hook")]), key.public_key())
    leaf = leaf.add_extension(x509.SubjectAlternativeName(names), critical=False)
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    bundle = root.sign(authority, hashes.SHA256()).public_bytes(pem)
    return bundle, leaf.sign(authority, hashes.SHA256()).public_bytes(pem) + private


class WebhookServer:
    """`handlers` by path. `requests` are (path with query, headers, decoded body) in their order."""

    def __init__(self) -> None:
        self.handlers: dict[str, Handler] = {}
        self.requests: list[tuple[str, dict[str, str], Json]] = []
        self.connections = 0
        self.port = 0
        self.called = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def ca_bundle(self) -> str:
        return base64.b64encode(certificates()[0]).decode()

    def client_config(self, path: str) -> Json:
        return {"url": self.url + path, "caBundle": self.ca_bundle}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while await self._answer_one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

    async def _answer_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; return whether the connection stays."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.strip().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = json.loads(await reader.readexactly(int(headers["content-length"])))
        target = first.split()[1]
        self.requests.append((target, headers, body))
        self.called.set()
        answer = self.handlers[target.partition("?")[0]](body)
        if isinstance(answer, Awaitable):
            answer = await answer
        if answer is None:
            await reader.read()
            return False
        if isinstance(answer, bytes):
            writer.write(answer)
            writer.close()
            await writer.wait_closed()  # the whole answer is sent
            return False
        writer.write(http(200, json.dumps(answer).encode()))
        await writer.drain()
        return True

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def http(code: int, body: bytes, *headers: str) -> bytes:
    """Return an HTTP answer as it is on the wire."""
    lines = [f"HTTP/1.1 {code} X", "content-type: application/json", f"content-length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


@contextlib.asynccontextmanager
async def webhook_server() -> AsyncIterator[WebhookServer]:
    hooks = WebhookServer()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "server.pem"
        path.write_bytes(certificates()[1])
        context.load_cert_chain(path)
    server = await asyncio.start_server(hooks.serve, "127.0.0.1", 0, ssl=context)
    hooks.port = server.sockets[0].getsockname()[1]
    try:
        yield hooks
    finally:
        server.close()
        await hooks.close()


def allow(review: Json, **more: Any) -> Json:
    """Return the AdmissionReview that allows a request."""
    return respond(review, allowed=True, **more)


def deny(review: Json, **status: Any) -> Json:
    return respond(review, allowed=False, **({"status": status} if status else {}))


def patch(review: Json, operations: Any) -> Json:
    """Return the AdmissionReview that allows a request with a JSON patch."""
    encoded = base64.b64encode(json.dumps(operations).encode()).decode()
    return respond(review, allowed=True, patch=encoded, patchType="JSONPatch")


def respond(review: Json, **response: Any) -> Json:
    return {
        "apiVersion": review["apiVersion"],
        "kind": review["kind"],
        "response": {"uid": review["request"]["uid"], **response},
    }


@contextlib.contextmanager
def webhook_server_thread() -> Iterator[WebhookServer]:
    """Run a server in a thread of its own, for tests without an event loop."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    context = webhook_server()
    try:
        yield asyncio.run_coroutine_threadsafe(context.__aenter__(), loop).result()
        asyncio.run_coroutine_threadsafe(context.__aexit__(None, None, None), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
