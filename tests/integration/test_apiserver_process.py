"""`bridgehead apiserver` on a real socket: certificates, restarts, shutdown, and clients that misbehave."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from bridgehead.tls_certificates import verifying_context
from tests.forks import run_bridgehead

from .apiserver_process import DEADLINE, ServerProcess, write_files
from .certificates import Authority

pytestmark = pytest.mark.integration

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with contextlib.closing(ServerProcess(tmp_path, store=f"sqlite://{tmp_path}/state.db")) as server:
        write_files(tmp_path)
        server.start()
        yield server


def connect(server: ServerProcess, *, buffer: int = 0) -> ssl.SSLSocket:
    """Connect as the admin."""
    raw = socket.socket()
    raw.settimeout(DEADLINE)
    if buffer:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    raw.connect(("127.0.0.1", server.port))
    return server.context("admin").wrap_socket(raw, server_hostname="127.0.0.1")


def send(server: ServerProcess, method: str, path: str, body: object = None) -> dict[str, Any]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(server.url + path, data, {"Content-Type": "application/json"}, method=method)
    with urllib.request.urlopen(request, context=server.context("admin"), timeout=DEADLINE) as response:
        answer: dict[str, Any] = json.loads(response.read())
    return answer


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def status_of(call: object) -> int:
    with pytest.raises(urllib.error.HTTPError) as caught:
        call()  # type: ignore[operator]
    caught.value.close()
    return caught.value.code


def test_requests_are_authenticated_by_certificate_and_token(server):
    assert server.read("/version")
    assert json.loads(server.read(CONFIG_MAPS, user="admin"))["kind"] == "ConfigMapList"
    assert json.loads(server.read(CONFIG_MAPS, token="admin-token"))["kind"] == "ConfigMapList"
    assert status_of(lambda: server.read(CONFIG_MAPS)) == 403
    assert status_of(lambda: server.read(CONFIG_MAPS, token="bob-token")) == 403
    assert status_of(lambda: server.read(CONFIG_MAPS, user="node1")) == 403
    assert status_of(lambda: server.read("/version", token="wrong")) == 401
    own_node = "/api/v1/nodes?fieldSelector=metadata.name%3Dnode1"
    assert json.loads(server.read(own_node, user="node1"))["items"] == []
    assert status_of(lambda: server.read("/api/v1/nodes", user="node1")) == 403


def test_certificates_of_another_authority_are_refused(server, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    Authority(elsewhere).issue("fake", "kubernetes-admin", "system:masters")
    context = server.context()
    context.load_cert_chain(elsewhere / "fake.crt", elsewhere / "fake.key")
    with pytest.raises((OSError, urllib.error.URLError)):
        urllib.request.urlopen(server.url + CONFIG_MAPS, context=context, timeout=DEADLINE)


def test_certificates_that_change_count_without_a_restart(server, tmp_path):
    trusted = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
    successors = tmp_path / "successors"
    successors.mkdir()
    authority = Authority(successors)
    authority.issue("server", "apiserver")
    authority.issue("admin", "kubernetes-admin", "system:masters")
    new_ca = (successors / "ca.crt").read_text()
    old, new = (verifying_context(cafile=successors / "ca.crt") for _ in range(2))
    old.load_cert_chain(tmp_path / "admin.crt", tmp_path / "admin.key")
    new.load_cert_chain(successors / "admin.crt", successors / "admin.key")

    def get(context: ssl.SSLContext) -> None:
        urllib.request.urlopen(server.url + CONFIG_MAPS, context=context, timeout=DEADLINE).close()

    def answers(context: ssl.SSLContext) -> bool:
        # From OpenSSL 3.4 on, a failed write leaves its error to whatever the thread reads next (cpython issue 148594).
        with ThreadPoolExecutor(1) as thread:
            error = thread.submit(get, context).exception()
        assert error is None or isinstance(error, OSError)
        return error is None

    with connect(server) as idle, connect(server) as watch:
        idle.sendall(b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n")
        watch.sendall(b"GET %s?watch=true HTTP/1.1\r\nHost: x\r\n\r\n" % CONFIG_MAPS.encode())
        assert idle.recv(65536).startswith(b"HTTP/1.1 200")
        assert watch.recv(65536).startswith(b"HTTP/1.1 200")
        for name in ("server.crt", "server.key"):  # a certificate without its key changes nothing
            (successors / name).replace(tmp_path / name)
        until(lambda: answers(old))
        (tmp_path / "ca.crt").write_text(new_ca)
        until(lambda: answers(new))
        assert not answers(old)
        assert idle.recv(65536) == b""  # clients that were verified by the earlier CAs have to come again
        body = json.dumps({"metadata": {"name": "new"}}).encode()
        request = urllib.request.Request(server.url + CONFIG_MAPS, body, {"Content-Type": "application/json"})
        urllib.request.urlopen(request, context=new, timeout=DEADLINE).close()
        assert b'"name":"new"' in watch.recv(65536)  # a watch goes on, as with kube-apiserver

    def published() -> object:
        with urllib.request.urlopen(server.url + trusted, context=new, timeout=DEADLINE) as response:
            return json.loads(response.read())["data"]["client-ca-file"]

    until(lambda: published() == new_ca)


def test_objects_survive_a_restart_of_the_server(server):
    made = send(server, "POST", CONFIG_MAPS, {"metadata": {"name": "one"}, "data": {"k": "v"}})
    services = "/api/v1/namespaces/default/services"
    service = send(server, "POST", services, {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 1}]}})
    server.stop(signal.SIGKILL)
    server.start()
    assert send(server, "GET", f"{CONFIG_MAPS}/one") == made
    again = {"metadata": {"name": "t"}, "spec": {"clusterIP": service["spec"]["clusterIP"], "ports": [{"port": 1}]}}
    assert status_of(lambda: send(server, "POST", services, again)) == 422


def test_a_shutdown_ends_watches_and_exits_cleanly(server):
    with connect(server) as watch:
        watch.sendall(b"GET %s?watch=true HTTP/1.1\r\nHost: x\r\n\r\n" % CONFIG_MAPS.encode())
        assert watch.recv(65536).startswith(b"HTTP/1.1 200")
        server.send_signal(signal.SIGTERM)
        rest = b""
        while piece := watch.recv(65536):
            rest += piece
        assert rest.endswith(b"0\r\n\r\n")
    assert server.stop(signal.SIGTERM) == 0


def test_a_chunked_body_that_never_ends_is_refused(server):
    with connect(server) as client:
        client.sendall(
            b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
            % CONFIG_MAPS.encode()
        )
        chunk = b"10000\r\n" + b" " * 65536 + b"\r\n"
        answer = b""
        try:
            for _ in range(100):
                client.sendall(chunk)
            answer = client.recv(65536)
        except (ConnectionError, ssl.SSLError):
            # It closed the connection while we were still sending.
            answer = answer or b"HTTP/1.1 413"
        assert answer.startswith(b"HTTP/1.1 413")
    assert server.read("/readyz") == b"ok"


def test_a_client_that_never_reads_does_not_delay_others(server):
    with connect(server, buffer=4096) as stuck:
        stuck.sendall(b"GET %s?watch=true HTTP/1.1\r\nHost: x\r\n\r\n" % CONFIG_MAPS.encode())
        for i in range(40):
            send(server, "POST", CONFIG_MAPS, {"metadata": {"name": f"c{i}"}, "data": {"k": "x" * 100_000}})
        assert len(send(server, "GET", CONFIG_MAPS)["items"]) == 40
        assert server.stop(signal.SIGTERM) == 0


def test_watches_that_are_not_read_share_one_memory_budget(server):
    for i in range(10):
        send(server, "POST", CONFIG_MAPS, {"metadata": {"name": f"c{i}"}, "data": {"k": "x" * 400_000}})
    with contextlib.ExitStack() as stack:
        # Each is sent 4 MB at once, of which the kernel's own buffers take a part.
        for _ in range(150):
            watch = stack.enter_context(connect(server, buffer=4096))
            watch.sendall(b"GET %s?watch=true HTTP/1.1\r\nHost: x\r\n\r\n" % CONFIG_MAPS.encode())
        assert len(send(server, "GET", CONFIG_MAPS)["items"]) == 10
        with connect(server) as reader:
            reader.sendall(b"GET %s?watch=true HTTP/1.1\r\nHost: x\r\n\r\n" % CONFIG_MAPS.encode())
            received = 0
            while received < 4_000_000:
                received += len(reader.recv(65536))
        assert server.peak_memory_bytes() < 400e6  # with 4 MB for each of them, and its copies, four times that


def test_malformed_requests_on_the_socket_are_refused(server):
    with connect(server) as client:
        client.sendall(b"\x00\x01\x02 nonsense\r\n\r\n")
        assert client.recv(65536).startswith(b"HTTP/1.1 400")
    with socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE) as plain:
        plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
        with contextlib.suppress(ConnectionError):  # the connection may be closed or reset
            plain.recv(65536)
    assert server.read("/livez") == b"ok"


def test_headers_without_end_are_refused(server):
    with connect(server) as client:
        client.sendall(b"GET /version HTTP/1.1\r\nHost: x\r\n")
        with contextlib.suppress(OSError):  # the server may close the connection early
            client.sendall(b"X: y\r\n" * 300_000)
        assert client.recv(65536).startswith(b"HTTP/1.1 431 ")
    assert server.read("/livez") == b"ok"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--listen=nowhere"], "'nowhere' is not host:port"),
        (["--store=etcd://x"], "unknown store"),
        (["--service-node-port-range=5"], "is not FIRST-LAST"),
        (["--service-cluster-ip-range=banana"], "--service-cluster-ip-range: 'banana'"),
        (["--tls-cert-file=/nonexistent"], "/nonexistent"),
        (["--service-account-key-file=/nonexistent"], "/nonexistent"),
        (["--service-account-key-file=/etc/passwd"], "/etc/passwd: not an RSA or ECDSA private key"),
        (["--token-auth-file=/nonexistent"], "/nonexistent"),
        (["--proxy-client-cert-file=/nonexistent", "--proxy-client-key-file=/nonexistent"], "/nonexistent"),
        (["--proxy-client-key-file=/nonexistent"], "must be given together"),
        (["--requestheader-client-ca-file=/nonexistent"], "/nonexistent"),
        (["--advertise-address=127.0.0.1:6443"], "no pod can reach 127.0.0.1"),
        (["--advertise-address=banana:6443"], "'banana'"),
        (["--advertise-address=[fd00::1]:6443"], 'family "10.96.0.0/12" must match public address family "fd00::1"'),
        (["--service-cluster-ip-range=10.96.0.0/12,10.0.0.0/24"], "two of different families"),
    ],
)
def test_invalid_options_are_reported_in_one_line(tmp_path, options, text):
    write_files(tmp_path)
    given = {
        "--tls-cert-file": tmp_path / "server.crt",
        "--tls-private-key-file": tmp_path / "server.key",
        "--service-account-key-file": tmp_path / "sa.key",
        "--listen": "127.0.0.1:0",
    }
    given |= dict(option.split("=", 1) for option in options)
    arguments = [f"{name}={value}" for name, value in given.items()]
    result = run_bridgehead("apiserver", *arguments, timeout=DEADLINE)
    assert result.returncode == 1
    assert result.stderr.count("\n") == 1, result.stderr
    assert result.stderr.startswith("bridgehead apiserver: ")
    assert text in result.stderr


def test_a_port_in_use_is_reported_in_one_line(tmp_path):
    write_files(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = run_bridgehead(
            "apiserver",
            f"--tls-cert-file={tmp_path / 'server.crt'}",
            f"--tls-private-key-file={tmp_path / 'server.key'}",
            f"--service-account-key-file={tmp_path / 'sa.key'}",
            f"--listen=127.0.0.1:{port}",
            timeout=DEADLINE,
        )
    assert result.returncode == 1
    assert f"127.0.0.1:{port}" in result.stderr
    assert result.stderr.count("\n") == 1


def test_external_ips_of_earlier_services_stay_where_new_ones_are_denied(server: ServerProcess) -> None:
    services = "/api/v1/namespaces/default/services"

    def service(name: str, *external_ips: str) -> dict[str, Any]:
        return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], "externalIPs": external_ips}}

    send(server, "POST", services, service("old", "192.0.2.1", "192.0.2.2"))
    server.stop()
    server.options["enable-admission-plugins"] = "NodeRestriction,DenyServiceExternalIPs"
    server.start()

    def put(*external_ips: str) -> object:
        stored = send(server, "GET", f"{services}/old")
        stored["spec"] |= {"externalIPs": external_ips}
        return send(server, "PUT", f"{services}/old", stored)["spec"]["externalIPs"]

    for attempt in (
        lambda: send(server, "POST", services, service("new", "192.0.2.1")),
        lambda: put("192.0.2.1", "192.0.2.3"),
    ):
        with pytest.raises(urllib.error.HTTPError) as refused:
            attempt()
        with refused.value as answer:
            assert answer.code == 403
            text = "is forbidden: Use of external IPs is denied by admission control"
            assert text in json.loads(answer.read())["message"]
    assert put("192.0.2.2", "192.0.2.1") == ["192.0.2.2", "192.0.2.1"]
    assert put("192.0.2.2") == ["192.0.2.2"]
