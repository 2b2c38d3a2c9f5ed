"""The client for webhooks with a real HTTPS server: TLS, Services, and answers that are no answers."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from typing import Any

import pytest

from bridgehead.apiserver.webhookclient.client import MAX_ANSWER_BYTES, WebhookClient
from bridgehead.apiserver.webhookclient.errors import CallFailed, NotConfigured
from bridgehead.apiserver.webhookclient.webhook_location import parse_client_config
from bridgehead.storage import Facts, Key, MemoryStore

from .api_world import hold_port
from .webhook_server import WebhookServer, certificates, http, webhook_server

pytestmark = [pytest.mark.integration]
LONG = 60.0


@pytest.fixture
async def hooks() -> AsyncIterator[WebhookServer]:
    async with webhook_server() as hooks:
        hooks.handlers["/echo"] = lambda body: {"echo": body}
        yield hooks


@pytest.fixture
async def store() -> AsyncIterator[MemoryStore]:
    store = MemoryStore()
    yield store
    await store.close()


@pytest.fixture
async def client(store) -> AsyncIterator[WebhookClient]:
    client = WebhookClient(store)
    yield client
    await client.close()


async def failure(client: WebhookClient, config: dict[str, Any], seconds: float = LONG) -> str:
    with pytest.raises(CallFailed) as raised:
        await client.post(parse_client_config(config), b"{}", seconds=seconds)
    return str(raised.value)


async def put(
    store: MemoryStore, resource: str, name: str, obj: dict[str, Any], labels: dict[str, Any] | None = None
) -> None:
    obj = {"metadata": {"name": name, "namespace": "default"}, **obj}
    await store.create(Key(resource, "default", name), obj, Facts(labels or {}))


async def test_a_call_to_a_url_posts_json_over_a_kept_connection(hooks, client):
    config = parse_client_config(hooks.client_config("/echo"))
    for number in range(3):
        answer = await client.post(config, b'{"n": %d}' % number, seconds=9.5)
        assert answer == {"echo": {"n": number}}
    assert hooks.connections == 1
    target, headers, _ = hooks.requests[0]
    assert (target, headers["content-type"]) == ("/echo?timeout=10s", "application/json")


async def test_a_service_is_called_at_a_ready_endpoint_with_its_name(hooks, client, store):
    config = {"service": {"namespace": "default", "name": "hook", "path": "/echo"}, "caBundle": hooks.ca_bundle}
    url = 'Post "https://hook.default.svc:443/echo?timeout=60s"'
    assert await failure(client, config) == f'{url}: service "hook" not found'
    await put(store, "services", "hook", {"spec": {"ports": [{"name": "web", "port": 443, "targetPort": 8443}]}})
    assert await failure(client, config) == f'{url}: no endpoints available for service "hook"'
    other = {"service": {**config["service"], "port": 80}, "caBundle": hooks.ca_bundle}
    assert 'no service port 80 found for service "hook"' in await failure(client, other)
    ready = {"addresses": ["127.0.0.1"], "conditions": {"ready": True}}
    waiting = {"addresses": ["127.0.0.2"], "conditions": {"ready": False}}
    slice_ = {"ports": [{"name": "web", "port": hooks.port}], "endpoints": [waiting, ready]}
    await put(store, "endpointslices.discovery.k8s.io", "s", slice_, {"kubernetes.io/service-name": "hook"})
    assert await client.post(parse_client_config(config), b"{}", seconds=LONG) == {"echo": {}}
    assert hooks.requests[-1][1]["host"] == "hook.default.svc:443"


async def test_the_certificate_must_be_of_the_bundle_and_for_the_name(hooks, client, store):
    foreign = base64.b64encode(certificates("foreign")[0]).decode()
    unknown = "tls: failed to verify certificate: x509: certificate signed by unknown authority"
    assert unknown in await failure(client, {"url": hooks.url, "caBundle": foreign})
    assert unknown in await failure(client, {"url": hooks.url})
    await put(store, "services", "other", {"spec": {"ports": [{"port": 443}]}})
    slice_ = {"ports": [{"port": hooks.port}], "endpoints": [{"addresses": ["127.0.0.1"]}]}
    await put(store, "endpointslices.discovery.k8s.io", "s", slice_, {"kubernetes.io/service-name": "other"})
    other = {"service": {"namespace": "default", "name": "other"}, "caBundle": hooks.ca_bundle}
    assert "other.default.svc" in await failure(client, other)
    assert hooks.requests == []
    broken = base64.b64encode(b"no certificate").decode()
    with pytest.raises(NotConfigured, match="unable to parse bytes as PEM block"):
        await client.post(parse_client_config({"url": hooks.url, "caBundle": broken}), b"{}", seconds=LONG)


async def test_bad_answers_are_failures_with_a_reason(hooks, client):
    status = b'{"kind":"Status","message":"the webhook says no"}'
    for name, answer, why in (
        ("garbage", http(200, b"<html>"), "couldn't get version/kind; json parse error"),
        ("list", http(200, b"[]"), "the answer is not an object"),
        ("deep", http(200, b"[" * 100_000), "json parse error"),
        ("empty", http(200, b""), "json parse error"),
        ("status", http(500, status), "the webhook says no"),
        ("error", http(500, b"oh"), 'an error on the server ("oh") has prevented the request from succeeding'),
        ("missing", http(404, b"oh"), "the server could not find the requested resource"),
        ("redirect", http(307, b"", f"location: {hooks.url}/echo"), "status code 307"),
        ("noise", b"\0" * 5000, "Post"),
        ("cut", b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{}", "Post"),
        ("gone", b"", "EOF"),
    ):
        hooks.handlers[f"/{name}"] = lambda _, answer=answer: answer
        assert why in await failure(client, hooks.client_config(f"/{name}")), name
    # A redirect is not followed.
    assert all(not target.startswith("/echo") for target, _, _ in hooks.requests)


async def test_a_call_is_bounded_in_time_and_size(hooks, client):
    hooks.handlers["/hang"] = lambda _: None
    url = f"{hooks.url}/hang?timeout=1s"
    assert await failure(client, hooks.client_config("/hang"), 0.05) == f'Post "{url}": context deadline exceeded'
    hooks.handlers["/huge"] = lambda _: http(200, b" " * (MAX_ANSWER_BYTES + 1))
    assert f"larger than {MAX_ANSWER_BYTES} bytes" in await failure(client, hooks.client_config("/huge"))


async def test_a_server_that_does_not_listen_refuses_the_connection(client, hooks):
    with hold_port() as held:
        port = held.getsockname()[1]
        why = await failure(client, {"url": f"https://127.0.0.1:{port}/", "caBundle": hooks.ca_bundle})
    assert why == (
        f'Post "https://127.0.0.1:{port}/?timeout=60s": dial tcp 127.0.0.1:{port}: connect: connection refused'
    )


async def test_a_kept_connection_that_the_webhook_closed_is_no_failure(hooks, client):
    hooks.handlers["/close"] = lambda body: http(200, b'{"n": 1}')  # closes after the answer
    config = parse_client_config(hooks.client_config("/close"))
    for _ in range(5):
        assert await client.post(config, b"{}", seconds=LONG) == {"n": 1}


async def test_calls_run_beside_each_other(hooks, client):
    everyone_is_here = asyncio.Barrier(5)

    async def wait(_):
        await everyone_is_here.wait()
        return {}

    hooks.handlers["/wait"] = wait
    config = parse_client_config(hooks.client_config("/wait"))
    await asyncio.gather(*(client.post(config, b"{}", seconds=LONG) for _ in range(5)))
