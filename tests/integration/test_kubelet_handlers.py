"""Probe and hook actions against real listeners on loopback, with Kubernetes' messages."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import sys
import textwrap

import pytest
from aiohttp import web

from bridgehead.kubelet.containers.handlers import Handlers, Outcome, Target
from bridgehead.kubelet.runtimes.runtime import ContainerSpec, ExecResult, SandboxSpec
from bridgehead.objects.core import (
    Container,
    ContainerPort,
    ExecAction,
    GRPCAction,
    HTTPGetAction,
    HTTPHeader,
    LifecycleHandler,
    Probe,
    SleepAction,
    TCPSocketAction,
)
from tests.integration.fake_runtime import Behaviour, FakeRuntime

from .certificates import server_certificate

pytestmark = pytest.mark.integration

SEEN: list[web.Request] = []
PATIENCE = 20.0  # seconds for what is to succeed
TERMINATED = "Probe terminated redirects, Response body: "
BROKEN = "net/http: HTTP/1.x transport connection broken"


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
def handlers():
    return Handlers(FakeRuntime())


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


class Recorder:
    """A server that keeps the bytes of each request, and sends scripted ones."""

    def __init__(self, *answers):
        self.answers = list(answers) or [OK]
        self.requests = []
        self.writers = []

    async def serve(self, reader, writer):
        self.writers.append(writer)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            self.requests.append(await reader.readuntil(b"\r\n\r\n"))
            answer = self.answers[min(len(self.requests), len(self.answers)) - 1]
            writer.write(answer)
            await writer.drain()
            if not answer.endswith(STALLED):
                writer.close()

    @contextlib.asynccontextmanager
    async def listening(self, host="127.0.0.1", tls=None):
        server = await asyncio.start_server(self.serve, host, 0, ssl=tls)
        async with server:
            yield server.sockets[0].getsockname()[1]
            for writer in self.writers:
                writer.transport.abort()
                with contextlib.suppress(OSError):
                    await writer.wait_closed()

    def lines(self, index=0):
        return self.requests[index].decode("latin-1").split("\r\n")[:-2]


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
STALLED = b"stalled"


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/a/../b", "/a/../b"),
        ("/%41", "/%41"),
        ("/a//b/./", "/a//b/./"),
        ("/x?q=%2F&r=a b", "/x?q=%2F&r=a b"),
        ("/x#y", "/x"),
        ("", "/"),
        ("/é", "/%C3%A9"),
        ("/%zz", "/%25zz"),
    ],
)
async def test_a_probe_sends_what_was_written_and_the_headers_of_a_kubelet(handlers, path, target):
    recorder = Recorder()
    async with recorder.listening() as port:
        assert (await get(handlers, port, path)).success
    assert recorder.lines() == [
        f"GET {target} HTTP/1.1",
        f"Host: 127.0.0.1:{port}",
        "User-Agent: kube-probe/1.36",
        "Accept: */*",
        "Connection: close",
    ]


async def test_a_hook_sends_the_headers_of_a_kubelet(handlers):
    recorder = Recorder()
    headers = (HTTPHeader(name="x-b", value="2"), HTTPHeader(name="X-A", value="1"), HTTPHeader(name="X-B", value="3"))
    container = Container(name="c", ports=(ContainerPort(name="web", container_port=1),))
    async with recorder.listening() as port:
        container = Container(name="c", ports=(ContainerPort(name="web", container_port=port),))
        hook = LifecycleHandler(http_get=HTTPGetAction(port="web", path="/%41/..", http_headers=headers))
        assert (await handlers.perform(hook, Target(container, "id", "127.0.0.1"), PATIENCE)).success
    assert recorder.lines() == [
        "GET /%41/.. HTTP/1.1",
        f"Host: 127.0.0.1:{port}",
        "User-Agent: kube-lifecycle/1.36",
        "Accept: */*",
        "X-A: 1",
        "X-B: 2",
        "X-B: 3",
        "Accept-Encoding: gzip",
    ]


async def test_an_ipv6_host_is_in_brackets(handlers):
    recorder = Recorder()
    async with recorder.listening("::1") as port:
        probe = Probe(http_get=HTTPGetAction(host="::1", port=port, path="/"))
        assert (await handlers.perform(probe, TARGET, PATIENCE)).success
    assert recorder.lines()[1] == f"Host: [::1]:{port}"


async def test_https_is_not_verified(handlers):
    recorder = Recorder()
    async with recorder.listening(tls=server_certificate()) as port:
        probe = Probe(http_get=HTTPGetAction(scheme="HTTPS", port=port, path="/a/../b"))
        assert await handlers.perform(probe, TARGET, PATIENCE) == Outcome(True)
    assert recorder.lines()[0] == "GET /a/../b HTTP/1.1"


def redirect(location):
    return f"HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n".encode()


async def test_a_relative_redirect_keeps_the_host_header_and_an_absolute_one_does_not(handlers):
    recorder = Recorder(redirect("../%42?x"), None, OK)
    async with recorder.listening() as port:
        recorder.answers[1] = redirect(f"http://127.0.0.1:{port}/a/../c")
        assert (await get(handlers, port, "/a/b", headers=(HTTPHeader(name="Host", value="web"),))).success
    heads = [recorder.lines(index) for index in range(3)]
    assert [head[:2] for head in heads] == [
        ["GET /a/b HTTP/1.1", "Host: web"],
        ["GET /%42?x HTTP/1.1", "Host: web"],
        ["GET /c HTTP/1.1", f"Host: 127.0.0.1:{port}"],
    ]
    assert f"Referer: http://127.0.0.1:{port}/a/b" in heads[1]
    assert f"Referer: http://127.0.0.1:{port}/%42?x" in heads[2]


CHUNKED = b"HTTP/1.1 302 Found\r\nLocation: http://elsewhere.invalid/\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (b"HTTP/1.1 100 Continue\r\n\r\n" + OK, Outcome(True)),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 20_000 + STALLED, Outcome(True)),  # 10 KiB are enough
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n" + b"x" * 20_000, Outcome(True)),
        (b"HTTP/1.1 200 OK\nContent-Length: 1\n\nx", Outcome(True)),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx", Outcome(None, "unexpected EOF")),
        (b"HTTP/1.1 304 Not Modified\r\n\r\n", Outcome(True, f"{TERMINATED}", is_warning=True)),
        (CHUNKED + b"2\r\nab\r\n1;x=y\r\nc\r\n0\r\n\r\n", Outcome(True, f"{TERMINATED}abc", is_warning=True)),
        (CHUNKED + b"f000\r\n" + b"y" * 61440, Outcome(True, f"{TERMINATED}{'y' * 10240}", is_warning=True)),
        (CHUNKED + b"zz\r\n", Outcome(None, "malformed chunked encoding")),
        (CHUNKED + b"-1\r\n", Outcome(None, "malformed chunked encoding")),
        (b"HTTP/1.1 500 No\r\nContent-Length: 3\r\n\r\nabc", Outcome(False, "HTTP probe failed with statuscode: 500")),
        (b"SSH-2.0-server\r\n\r\n", f'{BROKEN}: malformed HTTP response "SSH-2.0-server"'),
        (b"HTTP/1.1 200 OK\r\nA: b", f"{BROKEN}: unexpected EOF"),
        (b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 20_000, "server response headers exceeded 65536 bytes; aborted"),
        (b"HTTP/1.1 200 OK\r\nA: " + b"b" * 100_000, "server response headers exceeded 65536 bytes; aborted"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 7, "net/http: too many 1xx informational responses"),
        (redirect("http://[x"), "failed to parse Location header 'http://[x': invalid host"),
        (redirect("ftp://127.0.0.1/x"), 'unsupported protocol scheme "ftp"'),
    ],
)
async def test_answers_are_bounded_and_judged_as_a_kubelet_does(handlers, answer, outcome):
    recorder = Recorder(answer)
    async with recorder.listening() as port:
        found = await get(handlers, port, "/")
    if isinstance(outcome, str):
        assert found.success is False
        assert found.output.endswith(outcome)
    else:
        assert found == outcome


async def test_a_probe_waits_for_the_body(handlers):
    recorder = Recorder(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n" + STALLED)
    async with recorder.listening() as port:
        outcome = await get(handlers, port, "/", timeout=0.2)
        hook = LifecycleHandler(http_get=HTTPGetAction(port=port, path="/"))
        of_hook = await handlers.perform(hook, TARGET, 0.2)
    waiting = "context deadline exceeded (Client.Timeout or context cancellation while reading body)"
    assert outcome == Outcome(None, waiting)
    assert of_hook == Outcome(True), "a hook's body does not matter"


async def test_requests_that_cannot_be_sent_fail_with_the_reason(handlers):
    outcome = await get(handlers, 1, "mailto:x")
    assert outcome == Outcome(False, 'Get "http:x": http: no Host in request URL')
    outcome = await get(handlers, 1, "/", headers=(HTTPHeader(name="X", value="a\nb"),))
    assert outcome.output == 'Get "http://127.0.0.1:1/": net/http: invalid header field value for "X"'
    probe = Probe(http_get=HTTPGetAction(host="nobody.invalid", port=1, path="/"))
    outcome = await handlers.perform(probe, TARGET, PATIENCE)
    assert outcome.output == 'Get "http://nobody.invalid:1/": dial tcp: lookup nobody.invalid: no such host'
    probe = Probe(tcp_socket=TCPSocketAction(host="nobody.invalid", port=1))
    assert (await handlers.perform(probe, TARGET, PATIENCE)).output == "dial tcp: lookup nobody.invalid: no such host"


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
        return await made.perform(LifecycleHandler(exec=ExecAction(command=command)), target, 2.0)

    made = Handlers(runtime)
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
