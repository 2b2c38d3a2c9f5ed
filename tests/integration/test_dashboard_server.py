"""The dashboard's server, at real sockets of loopback: access, methods, headers, bounds."""

import asyncio
import contextlib
import json
import time

import aiohttp
import pytest

from bridgehead.insight.dashboard import browsers, server
from bridgehead.insight.dashboard.access import PROTOCOL
from bridgehead.insight.live.updates import Table

from .dashboard_world import QUESTIONS, TOKEN, dashboard, small_cluster, with_ready

pytestmark = pytest.mark.integration

AUTHORIZED = {"Authorization": f"Bearer {TOKEN}"}


@contextlib.asynccontextmanager
async def client():
    """Yield the live model, the server, its address, and a session."""
    live = small_cluster()
    async with dashboard(live) as (serving, port), aiohttp.ClientSession() as session:
        yield live, serving, f"http://127.0.0.1:{port}", session


def feed(session, base, token=TOKEN, **headers):
    headers = {"Origin": base, **headers}
    return session.ws_connect(f"{base}/feed", protocols=(PROTOCOL, f"bearer.{token}"), headers=headers, max_msg_size=0)


async def test_the_page_needs_no_token_and_everything_else_does():
    async with client() as (_, _, base, session):
        for path in ("/", "/app.js", "/app.css", "/icon.svg"):
            async with session.get(base + path) as answer:
                assert answer.status == 200
                assert TOKEN not in await answer.text()
        for path in ("/api/session", "/api/yaml?kind=service&name=default/web", "/api/none", "/feed"):
            for headers in ({}, {"Authorization": "Bearer x"}, {"Cookie": f"token={TOKEN}"}):
                async with session.get(base + path, headers=headers) as answer:
                    assert answer.status == 401
            async with session.get(f"{base}{path}{'&' if '?' in path else '?'}token={TOKEN}") as answer:
                assert answer.status == 401
        async with session.get(base + "/api/session", headers=AUTHORIZED) as answer:
            assert await answer.json() == {"name": "test"}


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "BREW"])
async def test_it_only_reads(method):
    async with client() as (_, _, base, session):
        for path in ("/", "/api/yaml?kind=service&name=default/web"):
            async with session.request(method, base + path, headers=AUTHORIZED, data=b"{}") as answer:
                assert answer.status in (400, 405)


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "rebound.example"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
    ],
)
async def test_other_hosts_and_origins_are_refused(headers):
    async with client() as (_, _, base, session):
        async with session.get(base + "/api/session", headers={**AUTHORIZED, **headers}) as answer:
            assert answer.status == 403
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await feed(session, base, **headers)
        assert refused.value.status == 403


async def test_every_answer_has_the_policy():
    async with client() as (_, _, base, session):
        for path in ("/", "/app.js", "/none", "/api/session", "/feed"):
            async with session.get(base + path) as answer:
                assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'")
                assert answer.headers["X-Content-Type-Options"] == "nosniff"
                assert answer.headers["Cache-Control"] == "no-store"
                assert "Set-Cookie" not in answer.headers
                assert "Access-Control-Allow-Origin" not in answer.headers


async def test_paths_lead_to_no_other_files():
    async with client() as (_, _, base, session):
        for path in ("/../access.py", "/%2e%2e/access.py", "/static/app.js", "//etc/passwd", "/app.js/../../server.py"):
            async with session.get(base + path) as answer:
                assert answer.status in (200, 404)
                assert "import" not in (await answer.text())[:200] or "app.js" in str(answer.url)


async def test_questions_that_make_no_sense_have_one_line():
    async with client() as (_, _, base, session):
        for question in ("yaml?kind=secret&name=default/x", "yaml", "rules?node=none", "none", "yaml?" + "x" * 3000):
            async with session.get(f"{base}/api/{question}", headers=AUTHORIZED) as answer:
                assert answer.status in (400, 404)
                text = (await answer.json())["error"]
                assert "\n" not in text
                assert "Traceback" not in text


async def test_a_bug_in_a_question_is_one_line(monkeypatch):
    async def fail(asked):
        raise ZeroDivisionError

    monkeypatch.setitem(QUESTIONS, "dns", fail)
    async with client() as (_, _, base, session), session.get(f"{base}/api/dns", headers=AUTHORIZED) as answer:
        assert answer.status == 500
        assert await answer.json() == {"error": "the dashboard failed; its log has the reason"}


async def test_a_page_gets_a_snapshot_and_then_changes():
    async with client() as (live, _, base, session), feed(session, base) as socket:
        assert socket.protocol == PROTOCOL
        assert (await socket.receive_json())["type"] == "hello"
        snapshot = await socket.receive_json()
        assert snapshot["isSnapshot"]
        assert {row["key"] for row in snapshot["rows"]["services"]} == set(live.rows[Table.SERVICES])
        live.put(Table.SERVICES, with_ready(live.rows[Table.SERVICES]["default/web"], 1))
        [change] = (await socket.receive_json())["changes"]
        assert (change["key"], change["row"]["ready"]) == ("default/web", 1)


async def test_connections_come_only_to_a_page_that_looks():
    async with client() as (_, serving, base, session), feed(session, base) as socket:
        await socket.receive()
        await socket.receive()
        await socket.send_json({"look": "map"})
        message = await socket.receive_json()
        assert message["type"] == "flows"
        assert message["open"]["default/web"] == 3
        await socket.send_json({"look": ""})
        async with asyncio.timeout(20):
            while serving._dashboard.flows.pages:  # noqa: ASYNC110
                await asyncio.sleep(0.01)


@pytest.mark.parametrize("message", ["x" * 5000, "[]", '{"look":1}', "\0", "{" * 1000])
async def test_a_page_that_sends_something_else_is_dropped(message):
    async with client() as (_, serving, base, session), feed(session, base) as socket:
        await socket.receive()
        await socket.send_str(message)
        await _until(lambda: serving.pages == 0)


async def test_a_thousand_browsers_that_never_read(monkeypatch):
    """Only a few are let in, those are dropped when they do not read, and a page beside them works."""
    monkeypatch.setattr(browsers, "SEND_SECONDS", 0.3)
    monkeypatch.setattr(server, "HEARTBEAT_SECONDS", 0.5)
    async with client() as (live, serving, base, session):
        for number in range(200):
            live.add_service(f"many-{number}", endpoints=10)
        port = int(base.rpartition(":")[2])
        writers = []
        for number in range(1000):
            _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            writers.append(writer)
            writer.write(_upgrade(base))
            if number % 50 == 0:
                await asyncio.sleep(0)
            assert serving.pages <= server.MOST_PAGES
        await _until(lambda: serving.pages > 0 or all(writer.is_closing() for writer in writers))
        await _until(lambda: _push(live) or serving.pages == 0)
        async with feed(session, base) as socket:
            await socket.receive()
            snapshot = await socket.receive_json()
            assert len(snapshot["rows"]["services"]) == 204
        for writer in writers:
            writer.transport.abort()


async def test_silent_connections_make_room_for_others(monkeypatch):
    monkeypatch.setattr(server, "MOST_CONNECTIONS", 50)
    async with client() as (_, serving, base, session):
        port = int(base.rpartition(":")[2])
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(120)]
        async with session.get(base + "/api/session", headers=AUTHORIZED) as answer:
            assert answer.status == 200
        await _until(lambda: len(serving._connections) <= 51)
        for _, writer in silent:
            writer.transport.abort()


async def test_a_connection_that_stays_silent_is_ended(monkeypatch):
    monkeypatch.setattr(server, "SILENT_SECONDS", 0.1)
    monkeypatch.setattr(server, "_SWEEP_SECONDS", 0.05)
    async with client() as (_, _, base, _session):
        reader, writer = await asyncio.open_connection("127.0.0.1", int(base.rpartition(":")[2]))
        writer.write(b"GET / HTTP/1.1\r\nHost: ")
        async with asyncio.timeout(20):
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
        writer.transport.abort()


async def test_only_so_many_pages_are_open():
    async with client() as (_, serving, base, session), contextlib.AsyncExitStack() as stack:
        for _ in range(server.MOST_PAGES):
            await stack.enter_async_context(feed(session, base))
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await feed(session, base)
        assert refused.value.status == 503
        async with session.get(base + "/api/session", headers=AUTHORIZED) as answer:
            assert (await answer.json())["error"] == "full"
        assert serving.pages == server.MOST_PAGES


def _push(live):
    """Change every row, so that pages have something to read."""
    for row in tuple(live.rows[Table.SERVICES].values()):
        live.put(Table.SERVICES, with_ready(row, int(time.time() * 1000) % 10))
    return False


def _upgrade(base):
    return (
        f"GET /feed HTTP/1.1\r\nHost: {base.removeprefix('http://')}\r\nOrigin: {base}\r\nUpgrade: websocket\r\n"
        f"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {'A' * 22}==\r\n"
        f"Sec-WebSocket-Protocol: {PROTOCOL}, bearer.{TOKEN}\r\n\r\n"
    ).encode()


async def _until(condition, seconds=30.0):
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


def test_messages_are_json_of_one_encoding():
    assert json.loads(small_cluster().snapshot(frozenset(Table)).json)["isSnapshot"]
