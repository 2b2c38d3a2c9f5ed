"""Probe and hook actions against real listeners on loopback, with Kubernetes' messages."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import textwrap

import pytest
from aiohttp import web

from bridgehead.kubelet.containers.handlers import Handlers, Outcome, Target
from bridgehead.kubelet.runtimes.fake import Behaviour, FakeRuntime
from bridgehead.kubelet.runtimes.runtime import ContainerSpec, ExecResult, SandboxSpec
from bridgehead.objects.core import (
    Container,
    ExecAction,
    GRPCAction,
    HTTPGetAction,
    HTTPHeader,
    LifecycleHandler,
    Probe,
    SleepAction,
    TCPSocketAction,
)

pytestmark = pytest.mark.integration

SEEN: list[web.Request] = []
PATIENCE = 20.0  # seconds for what is to succeed


async def answer(request):
    SEEN.append(request)
    match request.path:
        case "/ok":
            return web.Response(text="fine")
        case "/cookie":
            return web.Response(headers={"Set-Cookie": "user=one"})
        case "/here":
            return web.Response(status=302, headers={"Location": "/bad"})
        case "/away":
            return web.Response(status=302, headers={"Location": "http://elsewhere.invalid/"}, text="elsewhere")
        case "/loop":
            return web.Response(status=302, headers={"Location": "/loop"})
        case "/slow":
            await asyncio.sleep(60)
        case "/abort":
            request.transport.abort()
    return web.Response(status=503)


@pytest.fixture
async def port():
    SEEN.clear()
    runner = web.ServerRunner(web.Server(answer), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    yield runner.addresses[0][1]
    await runner.cleanup()


@pytest.fixture
def closed_port():
    with socket.socket() as held:  # nobody else gets it meanwhile
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


@pytest.fixture
async def handlers():
    async with Handlers(FakeRuntime()) as handlers:
        yield handlers


TARGET = Target(Container(name="c"), "id", "127.0.0.1")


async def get(handlers, port, path, *, timeout=PATIENCE, headers=()):
    action = HTTPGetAction(port=port, path=path, http_headers=headers)
    return await handlers.perform(Probe(http_get=action), TARGET, timeout)


@pytest.mark.parametrize(
    ("path", "success", "message"),
    [
        ("/ok", True, ""),
        ("ok", True, ""),
        ("/none", False, "HTTP probe failed with statuscode: 503"),
        ("/here", False, "HTTP probe failed with statuscode: 503"),
        ("/away", True, "Probe terminated redirects, Response body: elsewhere"),
        ("/loop", False, "stopped after 10 redirects"),
        ("/abort", False, "EOF"),
    ],
)
async def test_http_succeeds_and_fails_by_status(handlers, port, path, success, message):
    outcome = await get(handlers, port, path)
    assert outcome.success is success
    assert message in outcome.output
    assert outcome.is_warning is (path == "/away")


@pytest.mark.parametrize(("path", "success"), [("/ok", True), ("/none", True), ("/here", True), ("/abort", False)])
async def test_any_response_to_a_hook_is_a_success(handlers, port, path, success):
    hook = LifecycleHandler(http_get=HTTPGetAction(port=port, path=path))
    assert (await handlers.perform(hook, TARGET, PATIENCE)).success is success
    assert SEEN[0].headers["User-Agent"] == "kube-lifecycle/1.36"


async def test_a_hook_without_tls_is_called_again_in_http_without_credentials(handlers, port):
    headers = (HTTPHeader(name="authorization", value="Basic x"), HTTPHeader(name="X-Hook", value="y"))
    action = HTTPGetAction(scheme="HTTPS", port=port, path="/ok", http_headers=headers)
    outcome = await handlers.perform(LifecycleHandler(http_get=action), TARGET, PATIENCE)
    what = f"request to HTTPS lifecycle hook 127.0.0.1:{port} got HTTP response, retry with HTTP succeeded"
    assert outcome == Outcome(True, fallback=what)
    assert (SEEN[-1].headers.get("X-Hook"), SEEN[-1].headers.get("Authorization")) == ("y", None)
    outcome = await handlers.perform(Probe(http_get=action), TARGET, PATIENCE)
    expected = f'Get "https://127.0.0.1:{port}/ok": http: server gave HTTP response to HTTPS client'
    assert outcome == Outcome(False, expected)


async def test_no_hook_is_a_tcp_socket(handlers, port):
    hook = LifecycleHandler(tcp_socket=TCPSocketAction(port=port))
    assert (await handlers.perform(hook, TARGET, PATIENCE)).success is False


async def test_http_fails_after_its_timeout(handlers, port):
    outcome = await get(handlers, port, "/slow", timeout=0.1)
    assert outcome.success is False
    assert outcome.output == (
        f'Get "http://127.0.0.1:{port}/slow": '
        "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
    )


async def test_http_sends_the_user_agent_and_the_given_headers(handlers, port):
    given = (("Host", "web.example"), ("X-Tag", "1"), ("X-Tag", "2"))
    await get(handlers, port, "/ok", headers=tuple(HTTPHeader(name=name, value=value) for name, value in given))
    assert SEEN[0].headers["User-Agent"].startswith("kube-probe/")
    assert SEEN[0].headers["Accept"] == "*/*"
    assert SEEN[0].headers["Host"] == "web.example"
    assert SEEN[0].headers.getall("X-Tag") == ["1", "2"]
    await get(handlers, port, "/ok", headers=(HTTPHeader(name="user-agent", value="own"),))
    assert SEEN[1].headers.getall("User-Agent") == ["own"]


async def test_no_cookies_are_kept(handlers, port):
    probe = Probe(http_get=HTTPGetAction(host="localhost", port=port, path="/cookie"))
    for _ in range(2):
        assert (await handlers.perform(probe, TARGET, PATIENCE)).success
    assert "Cookie" not in SEEN[1].headers


async def test_a_closed_port_fails(handlers, closed_port):
    outcome = await get(handlers, closed_port, "/x")
    refused = f"dial tcp 127.0.0.1:{closed_port}: connect: connection refused"
    assert outcome.output == f'Get "http://127.0.0.1:{closed_port}/x": {refused}'
    action = Probe(tcp_socket=TCPSocketAction(port=closed_port))
    assert (await handlers.perform(action, TARGET, PATIENCE)).output == refused


async def test_tcp_connects_and_sleep_waits(handlers, port):
    tcp = Probe(tcp_socket=TCPSocketAction(port=port))
    assert (await handlers.perform(tcp, TARGET, PATIENCE)).success
    assert (await handlers.perform(LifecycleHandler(sleep=SleepAction(seconds=0)), TARGET, PATIENCE)).success


async def serve_health(reader, writer):
    """Answer one call of the health service: settings, headers, the message SERVING or NOT_SERVING, trailers."""
    request = await reader.readuntil(b"kube-probe/1.36")
    body = await reader.readexactly(9 + 5) if b"Check" in request else b""
    status = b"\x01" if body.endswith(bytes(5)) else b"\x02"
    message = b"\0\0\x07\0\0\0\0\0\x01" + b"\0\0\0\0\x02\x08" + status
    writer.write(b"\0\0\0\x04\0\0\0\0\0" + b"\0\0\x01\x01\x04\0\0\0\x01\x88" + message)
    writer.write(b"\0\0\x01\x01\x05\0\0\0\x01\x88")
    await reader.read()  # until the probe closes the connection
    writer.close()


async def test_grpc_asks_the_health_service(handlers, closed_port):
    async with await asyncio.start_server(serve_health, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]

        async def probe(port, service=""):
            return await handlers.perform(Probe(grpc=GRPCAction(port=port, service=service)), TARGET, PATIENCE)

        assert await probe(port) == Outcome(True, "service healthy")
        assert await probe(port, "shop") == Outcome(False, 'service unhealthy (responded with "NOT_SERVING")')
        refused = f'error: failed to connect service at "127.0.0.1:{closed_port}": connect: connection refused'
        assert await probe(closed_port) == Outcome(False, refused)


async def test_an_unknown_port_name_gives_an_unknown_result(handlers):
    outcome = await handlers.perform(Probe(tcp_socket=TCPSocketAction(port="web")), TARGET, 1.0)
    assert outcome.success is None


async def test_exec_succeeds_and_fails_by_exit_code():
    def run(spec, argv):
        if argv == ("slow",):
            raise TimeoutError
        return ExecResult(exit_code=int(argv[1]), output=b"message")

    runtime = FakeRuntime({"app:1": Behaviour(exec=run)})
    await runtime.run_sandbox(SandboxSpec(pod_uid="u", namespace="n", name="p", hostname="p", ips=("10.0.0.2",)))
    image = await runtime.find_image("app:1")
    info = await runtime.start_container(ContainerSpec(pod_uid="u", name="c", attempt=0, image=image))
    target = Target(Container(name="c"), info.id, "10.0.0.2")

    async def perform(*command):
        return await handlers.perform(LifecycleHandler(exec=ExecAction(command=command)), target, 2.0)

    async with Handlers(runtime) as handlers:
        assert (await perform("exit", "0")).success is True
        assert await perform("exit", "1") == Outcome(False, "message")
        slow = await perform("slow")
        assert (slow.success, slow.output) == (False, 'command timed out: "slow" timed out after 2s')
        runtime.finish(info.id, 0)
        assert (await perform("exit", "0")).success is None


def test_an_empty_dir_in_memory_is_a_separate_file_system(tmp_path):
    script = textwrap.dedent(
        """
        import sys
        from pathlib import Path
        from bridgehead.kubelet.volumes.directories import make_empty_dir, make_open_directory
        from bridgehead.kubelet.volumes.volume_manager import remove_pod_directory
        from bridgehead.objects.core import EmptyDirVolume
        pod = Path(sys.argv[1])
        directory = pod / "volumes/kubernetes.io~empty-dir/mem"
        for _ in range(2):
            make_empty_dir(directory, EmptyDirVolume(medium="Memory"), 0, 8 << 20)
        (directory / "file").write_text("x")
        found = [line.split() for line in open("/proc/mounts") if str(directory) in line]
        assert [line[2] for line in found] == ["tmpfs"], found
        assert "size=8192k" in found[0][3], found
        assert directory.stat().st_mode & 0o7777 == 0o3777  # sticky, as in Kubernetes
        try:
            make_open_directory(pod / "volumes/kubernetes.io~empty-dir/other", 9)
            raise AssertionError
        except ValueError as error:
            assert "cannot be owned by group 9: the cluster runs in a user namespace" in str(error)
        remove_pod_directory(pod)
        assert not pod.exists()
        """
    )
    command = ["unshare", "--user", "--map-root-user", "--mount", sys.executable, "-c", script, str(tmp_path / "pod")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env={"PYTHONPATH": ":".join(sys.path)})
    assert done.returncode == 0, done.stderr
