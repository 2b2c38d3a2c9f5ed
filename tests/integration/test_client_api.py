"""The client against servers that misbehave, and against the real API server while it is restarted."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import ClientSession, web

from bridgehead.apiserver.http.server import server_context
from bridgehead.client import ApiClient, ClientConfig, Informer, api, load_kubeconfig, transport
from bridgehead.client.errors import ApiError, BadAnswer, Conflict, Gone, NotFound, TooManyRequests, Unreachable
from bridgehead.lab.certificates import make_certificates
from bridgehead.lab.plan import LabConfig, LabFiles
from bridgehead.objects.core import ConfigMap
from bridgehead.objects.kinds import CONFIG_MAPS, PODS
from bridgehead.objects.meta import ObjectKey, ObjectMeta

from .answering import serving, status
from .api_world import api_world, running, until, until_seen

pytestmark = pytest.mark.integration


async def test_a_list_has_no_time_limit_while_data_arrives(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(transport, "REQUEST_SECONDS", 1.0)

    async def handler(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        await answer.write(b'{"metadata": {"resourceVersion": "7"}, "items": [')
        end = asyncio.get_running_loop().time() + 1.5
        while asyncio.get_running_loop().time() < end:
            await answer.write(b" ")
            await asyncio.sleep(0.02)
        await answer.write(b'{"metadata": {"name": "a"}}]}')
        return answer

    async with serving(handler) as config, ApiClient(config) as client:
        result = await client.list(PODS)

    assert [pod.metadata.name for pod in result.items] == ["a"]


async def test_a_server_that_hangs_is_retried_with_back_off(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(transport, "REQUEST_SECONDS", 0.5)
    asked = 0

    async def handler(request: web.Request) -> web.StreamResponse:
        nonlocal asked
        asked += 1
        await asyncio.sleep(100)
        return web.Response()

    async with serving(handler) as config, ApiClient(config) as client:
        with pytest.raises(Unreachable):
            await client.list(PODS)

    assert asked == 1


async def test_a_watch_without_bookmarks_is_restarted(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(api, "BOOKMARK_SILENCE_SECONDS", 0.5)
    began = asyncio.get_running_loop().time()
    watches = 0

    async def handler(request: web.Request) -> web.StreamResponse:
        nonlocal watches
        if "watch" not in request.query:
            return web.json_response({"metadata": {"resourceVersion": "7"}, "items": []})
        watches += 1
        answer = web.StreamResponse()
        await answer.prepare(request)
        if watches > 1:
            await answer.write(b'{"type": "ADDED", "object": {"metadata": {"name": "a", "resourceVersion": "8"}}}\n')
        await asyncio.sleep(100)
        return answer

    async with serving(handler) as config, ApiClient(config) as client:
        pods = Informer(client, PODS)
        async with running(pods.run()):
            await until_seen(lambda: len(pods), pods)

    assert asyncio.get_running_loop().time() - began > 0.5


async def test_requests_have_the_methods_paths_and_bodies_of_the_api():
    seen: list[tuple[str, str, dict[str, str], Any, str]] = []

    async def handler(request: web.Request) -> web.Response:
        text = await request.text()
        body = msgspec.json.decode(text) if text else None
        seen.append((request.method, request.path, dict(request.query), body, request.headers.get("Content-Type", "")))
        return web.json_response({"metadata": {"name": "a"}})

    async with serving(handler) as config, ApiClient(config) as client:
        await client.get(PODS, "a", "d")
        await client.list(PODS, "d", "app=web,tier!=x", "spec.nodeName=n", limit=5, continue_="c")
        await client.create(CONFIG_MAPS, ConfigMap(metadata=ObjectMeta(name="a", namespace="d"), data={"k": "v"}))
        await client.update(CONFIG_MAPS, {"metadata": {"name": "a", "namespace": "d"}}, subresource="status")
        await client.patch(PODS, "a", "d", {"x": 1}, "strategic", "status")
        await client.patch(PODS, "a", "d", [{"op": "remove", "path": "/x"}], type="json")
        await client.delete(PODS, "a", "d", uid="u", grace_period_seconds=0, propagation_policy="Orphan")
        await client.request(
            "POST", "/api/v1/namespaces/d/pods/a/binding", json={"target": {}}, params={"dryRun": "All"}
        )
    json, path = "application/json", "/api/v1/namespaces/d/pods"
    named = {"metadata": {"name": "a", "namespace": "d"}}
    options = {"gracePeriodSeconds": 0, "propagationPolicy": "Orphan", "preconditions": {"uid": "u"}}
    assert seen == [
        ("GET", f"{path}/a", {}, None, ""),
        (
            "GET",
            path,
            {"labelSelector": "app=web,tier!=x", "fieldSelector": "spec.nodeName=n", "limit": "5", "continue": "c"},
            None,
            "",
        ),
        (
            "POST",
            "/api/v1/namespaces/d/configmaps",
            {},
            {"apiVersion": "v1", "kind": "ConfigMap", **named, "data": {"k": "v"}},
            json,
        ),
        (
            "PUT",
            "/api/v1/namespaces/d/configmaps/a/status",
            {},
            {"apiVersion": "v1", "kind": "ConfigMap", **named},
            json,
        ),
        ("PATCH", f"{path}/a/status", {}, {"x": 1}, "application/strategic-merge-patch+json"),
        ("PATCH", f"{path}/a", {}, [{"op": "remove", "path": "/x"}], "application/json-patch+json"),
        ("DELETE", f"{path}/a", {}, {"apiVersion": "v1", "kind": "DeleteOptions", **options}, json),
        ("POST", f"{path}/a/binding", {"dryRun": "All"}, {"target": {}}, json),
    ]


async def test_a_busy_server_is_retried_after_retry_after():
    tries = 0

    async def handler(request: web.Request) -> web.Response:
        nonlocal tries
        tries += 1
        if tries < 3:
            return status(429, "TooManyRequests", {"Retry-After": "0"})
        return web.json_response({"metadata": {"name": "a"}})

    async with serving(handler) as config, ApiClient(config) as client:
        assert (await client.create(PODS, {}, "d")).metadata.name == "a"
        assert tries == 3


async def test_retries_of_a_busy_server_are_bounded():
    async def handler(request: web.Request) -> web.Response:
        return status(429, "TooManyRequests", {"Retry-After": "0"})

    async with serving(handler) as config, ApiClient(config) as client:
        with pytest.raises(TooManyRequests):
            await client.get(PODS, "a", "d")


async def test_error_responses_raise_typed_errors_and_malformed_ones_bad_answer():
    answers = {"a": status(404, "NotFound"), "b": status(409, "Conflict"), "c": web.Response(text="<html>", status=502)}

    async def handler(request: web.Request) -> web.StreamResponse:
        return answers.get(request.path.rpartition("/")[2]) or web.Response(text="<html>welcome to the portal")

    async with serving(handler) as config, ApiClient(config) as client:
        for name, expected in (("a", NotFound), ("b", Conflict), ("c", ApiError), ("d", BadAnswer)):
            with pytest.raises(expected):
                await client.get(PODS, name, "d")
        with pytest.raises(BadAnswer):
            await client.request("GET", "/version")


async def test_reads_are_retried_after_a_dropped_connection_and_creates_are_not():
    tries: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        tries.append(request.method)
        if request.method == "POST" or len(tries) < 3:
            assert request.transport is not None
            request.transport.abort()
        return web.json_response({"metadata": {"name": "a"}})

    async with serving(handler) as config, ApiClient(config) as client:
        assert (await client.get(PODS, "a", "d")).metadata.name == "a"
        del tries[:]
        with pytest.raises(Unreachable):
            await client.create(PODS, {}, "d")
        assert tries == ["POST"]


async def test_an_outage_is_logged_once(caplog):
    caplog.set_level(logging.INFO, "bridgehead")
    async with api_world() as world, ApiClient(world.config) as client:
        await world.stop()
        for _ in range(3):
            with pytest.raises(Unreachable):
                await client.patch(PODS, "a", "default", {})
        await world.start()
        await client.list(PODS)
    messages = [r.message for r in caplog.records if r.name.startswith("bridgehead.client")]
    assert len(messages) == 2
    assert "is unreachable, trying again: cannot connect to 127.0.0.1:" in messages[0]
    assert messages[0].endswith(": Connection refused")
    assert "answers again" in messages[1]


async def test_watch_events_may_be_large_and_split_across_packets():
    big = {"type": "ADDED", "object": {"metadata": {"name": "big", "annotations": {"a": "x" * 3_000_000}}}}
    small = {"type": "ADDED", "object": {"metadata": {"name": "small"}}}
    lines = b"".join(msgspec.json.encode(one) + b"\n" for one in (small, big, small, small))

    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for start in range(0, len(lines), 99_991):
            await response.write(lines[start : start + 99_991])
        await response.write(b'{"type":"ADDED","object":{"metadata":{"na')  # and then it dies
        return response

    async with serving(handler) as config, ApiClient(config) as client:
        names = [event.object.metadata.name async for event in client.watch(PODS)]
    assert names == ["small", "big", "small", "small"]


async def test_errors_in_a_watch_raise_typed_errors():
    expired = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}}

    async def handler(request: web.Request) -> web.StreamResponse:
        if "1" in request.query.get("resourceVersion", ""):
            return status(410, "Expired")
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(msgspec.json.encode(expired) + b"\n")
        return response

    async with serving(handler) as config, ApiClient(config) as client:
        for version in ("1", "2"):
            with pytest.raises(Gone):
                await anext(client.watch(PODS, resource_version=version))


async def test_connections_resume_the_tls_session_of_the_first_with_the_clients_certificate(tmp_path: Path):
    files, connections = LabFiles(tmp_path), []
    make_certificates(LabConfig(name="tls", nodes=1, port=6443), files)
    context = server_context(files.pki / "apiserver.crt", files.pki / "apiserver.key", files.pki / "client-ca.crt")
    together = asyncio.Barrier(3)

    async def handler(request: web.Request) -> web.Response:
        assert request.transport is not None
        tls = request.transport.get_extra_info("ssl_object")
        connections.append((tls.session_reused, tls.getpeercert()["subject"][-1][0][1]))
        if request.path.endswith("/b"):
            await together.wait()  # so that each request has a connection of its own
        return web.json_response({"metadata": {"name": "a"}})

    async with serving(handler, context) as plain:
        config = replace(load_kubeconfig(files.kubeconfig), server=plain.server)
        async with ApiClient(config) as client, asyncio.timeout(60):
            await asyncio.gather(client.get(PODS, "a", "d"), *(client.get(PODS, "b", "d") for _ in range(3)))
        async with ApiClient(config) as client:
            await client.get(PODS, "a", "d")

    # Two of the three resume the session, one uses the first connection again; the last request is another client's.
    resumed = [False, False, True, True, False]
    assert connections == [(is_resumed, "kubernetes-admin") for is_resumed in resumed]


async def test_connections_during_the_first_handshake_get_sessions_of_their_own(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(transport, "CONNECT_SECONDS", 0.01)
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts connections, and answers no handshake
        config = ClientConfig(server=f"https://127.0.0.1:{silent.getsockname()[1]}", insecure=True)
        async with ApiClient(config) as client:
            requests = [asyncio.create_task(client.get(PODS, "a", "d")) for _ in range(3)]
            accepted = [await asyncio.to_thread(silent.accept) for _ in requests]
            for connection, _ in accepted:
                connection.close()
            for request in requests:
                with pytest.raises(Unreachable):
                    await request


@contextlib.asynccontextmanager
async def hanging_server(directory: Path) -> AsyncIterator[tuple[ClientConfig, asyncio.Task[None]]]:
    """Answer a request with one event and no end. The task ends when the client has closed the TCP connection.

    The end of TLS is not answered.
    """
    files = LabFiles(directory)
    make_certificates(LabConfig(name="tls", nodes=1, port=6443), files)
    context = server_context(files.pki / "apiserver.crt", files.pki / "apiserver.key", files.pki / "client-ca.crt")
    event = msgspec.json.encode({"type": "ADDED", "object": {"metadata": {"name": "a"}}}) + b"\n"

    def serve_and_hang(listener: socket.socket) -> None:
        with listener.accept()[0] as accepted, context.wrap_socket(accepted, server_side=True) as tls:
            tls.recv(65536)
            head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
            tls.sendall(head + b"%x\r\n%s\r\n" % (len(event), event))
            with socket.socket(fileno=tls.detach()) as raw:
                raw.settimeout(20)  # asyncio would wait for 30 s
                while raw.recv(65536):
                    pass

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = asyncio.create_task(asyncio.to_thread(serve_and_hang, listener))
        address = f"https://127.0.0.1:{listener.getsockname()[1]}"
        yield replace(load_kubeconfig(files.kubeconfig), server=address), server


async def test_a_watch_that_is_left_does_not_wait_for_a_server_that_hangs(tmp_path: Path):
    async with hanging_server(tmp_path) as (config, server), ApiClient(config) as client:
        async with contextlib.aclosing(client.watch(PODS)) as events:
            assert (await anext(events)).object.metadata.name == "a"
        await server


async def test_a_client_that_ends_closes_the_connections_of_abandoned_requests_at_once(tmp_path: Path):
    async with hanging_server(tmp_path) as (config, server):
        async with ApiClient(config) as client:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.3):
                    await client.get(PODS, "a", "d")
        await server


async def test_an_informer_stays_consistent_across_restarts_of_the_api_server():
    async with api_world() as world, ApiClient(world.config) as client, ApiClient(world.config) as other:
        informer = Informer(client, CONFIG_MAPS, namespace="default")
        mirror: dict[ObjectKey, ConfigMap] = {}
        calls = []

        def on_change(old: ConfigMap | None, new: ConfigMap | None) -> None:
            calls.append((old, new))
            if new is not None:
                mirror[new.key] = new
            elif old is not None:
                del mirror[old.key]

        informer.on_change(on_change)

        def write(name: str, value: str) -> dict[str, Any]:
            return {"metadata": {"name": name, "namespace": "default"}, "data": {"k": value}}

        async def is_right() -> bool:
            there = {one.key: one for one in (await other.list(CONFIG_MAPS, "default")).items}
            return there == mirror == {one.key: one for one in informer.items()}

        async with running(informer.run()):
            await informer.wait_synced()
            for number in range(20):
                await other.create(CONFIG_MAPS, write(f"a{number}", "0"))
            await until(is_right)
            for restart in range(3):
                await world.stop()
                await world.start()
                for number in range(restart, 20, 3):
                    await other.delete(CONFIG_MAPS, f"a{number}", "default")
                await other.create(CONFIG_MAPS, write(f"b{restart}", str(restart)))
                await until(is_right)
            additions = [new for old, new in calls if old is None]
            assert len(additions) == 23, "each object was added once"


async def test_many_requests_run_concurrently():
    async with api_world() as world, ApiClient(world.config) as client:
        async with asyncio.TaskGroup() as tasks:
            for number in range(200):
                metadata = {"name": f"a{number}", "namespace": "default"}
                tasks.create_task(client.create(CONFIG_MAPS, {"metadata": metadata}))
        assert len((await client.list(CONFIG_MAPS, "default")).items) == 200


async def test_a_watch_over_a_websocket_of_another_client():
    async with api_world() as world, ApiClient(world.config) as client, ClientSession() as session:
        await client.create(CONFIG_MAPS, ConfigMap(metadata=ObjectMeta(name="a", namespace="default")))
        url = f"{world.config.server}/api/v1/watch/namespaces/default/configmaps/a"
        async with session.ws_connect(url, headers={"Authorization": "Bearer admin"}) as messages:
            first = await messages.receive_json(timeout=60)
            assert (first["type"], first["object"]["metadata"]["name"]) == ("ADDED", "a")
            await client.delete(CONFIG_MAPS, "a", "default")
            assert (await messages.receive_json(timeout=60))["type"] == "DELETED"
