"""The credentials of the client: files, credential plugins, impersonation, and a proxy on the way."""

from __future__ import annotations

import asyncio
import contextlib
import json
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from bridgehead.apiserver.http.server import server_context
from bridgehead.client import ApiClient, ClientConfig, credentials, load_kubeconfig, plugin_process, transport
from bridgehead.client.errors import CredentialsFailed, Unauthorized, Unreachable
from bridgehead.client.exec_plugin import ExecPlugin
from bridgehead.client.kubeconfig import Impersonation
from bridgehead.client.plugin_process import PluginProcess
from bridgehead.lab.certificates import make_certificates
from bridgehead.lab.plan import LabConfig, LabFiles
from bridgehead.objects.kinds import PODS

from .answering import serving, status
from .api_world import until
from .certificates import Authority

pytestmark = pytest.mark.integration

V1 = "client.authentication.k8s.io/v1"
FAR = "2999-01-01T00:00:00Z"


def pod() -> web.Response:
    return web.json_response({"metadata": {"name": "a"}})


async def test_a_token_file_is_read_again_when_its_token_is_refused(tmp_path: Path):
    valid = "one"

    async def handler(request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != f"Bearer {valid}":
            return status(401, "Unauthorized")
        return web.json_response({"metadata": {"name": "a"}})

    file = tmp_path / "token"
    file.write_text("one\n")
    async with serving(handler) as plain:
        config = ClientConfig(server=plain.server, token_file=file)
        async with ApiClient(config) as client:
            await client.get(PODS, "a", "d")
            valid = "two"
            file.write_text("two\n")
            await client.get(PODS, "a", "d")


class Plugin:
    """A plugin that counts its runs, and prints what the file `answer` has."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._program = directory / "login"
        self._write("echo run >> runs; cat answer")

    def _write(self, script: str) -> None:
        self._program.write_text(f"#!/bin/sh\ncd {self._directory}\n{script}\n")
        self._program.chmod(stat.S_IRWXU)

    def answer(self, **answer: Any) -> None:
        text = json.dumps({"kind": "ExecCredential", "apiVersion": V1, "status": answer})
        (self._directory / "answer").write_text(text)

    def entry(self, script: str = "", **more: Any) -> ExecPlugin:
        if script:
            self._write(f"echo run >> runs; {script}")
        return replace(ExecPlugin(V1, str(self._program), mode="Never"), **more)

    @property
    def runs(self) -> int:
        return len((self._directory / "runs").read_text().split())


@pytest.fixture
def plugin(tmp_path: Path) -> Plugin:
    return Plugin(tmp_path)


async def test_a_plugin_runs_once_for_all_requests_and_again_when_its_token_is_refused(plugin: Plugin):
    valid = "one"

    async def handler(request: web.Request) -> web.Response:
        return pod() if request.headers.get("Authorization") == f"Bearer {valid}" else status(401, "Unauthorized")

    plugin.answer(token="one", expirationTimestamp=FAR)
    async with serving(handler) as plain, ApiClient(replace(plain, exec_plugin=plugin.entry())) as client:
        await asyncio.gather(*(client.get(PODS, "a", "d") for _ in range(20)))
        assert plugin.runs == 1
        valid = "two"
        plugin.answer(token="two")
        await asyncio.gather(*(client.get(PODS, "a", "d") for _ in range(20)))
        assert plugin.runs == 2
        valid = "three"
        with pytest.raises(Unauthorized):
            await client.get(PODS, "a", "d")
        assert plugin.runs == 3


async def test_expired_credentials_are_renewed_before_a_request(plugin: Plugin):
    process = PluginProcess(plugin.entry())
    plugin.answer(token="one", expirationTimestamp="2020-01-01T00:00:00Z")
    await process.get()
    plugin.answer(token="two", expirationTimestamp=FAR)
    assert [(await process.get()).token for _ in range(3)] == ["two"] * 3
    assert plugin.runs == 2


async def test_a_plugin_gets_its_variables_and_no_input(plugin: Plugin, tmp_path: Path):
    plugin.answer(token="t")
    entry = plugin.entry('cat > input; echo "$KUBERNETES_EXEC_INFO $PROFILE $PATH" > given; cat answer')
    await PluginProcess(replace(entry, environment={"PROFILE": "dev"}, cluster={"server": "s"})).get()
    given, profile, path = (tmp_path / "given").read_text().split()
    assert json.loads(given)["spec"] == {"interactive": False, "cluster": {"server": "s"}}
    assert (profile, bool(path), (tmp_path / "input").read_text()) == ("dev", True, "")


@pytest.mark.parametrize(
    ("script", "text"),
    [
        ("exit 3", "failed with exit code 3"),
        ("echo x", "its output is not an ExecCredential"),
        ("yes", "it printed more than"),
    ],
)
async def test_a_plugin_that_fails_is_named(plugin: Plugin, monkeypatch: pytest.MonkeyPatch, script: str, text: str):
    monkeypatch.setattr(plugin_process, "FAILURE_SECONDS", 600.0)  # also on a machine that stalls
    process = PluginProcess(plugin.entry(script))
    failures = await asyncio.gather(*(process.get() for _ in range(5)), return_exceptions=True)
    assert all(isinstance(failure, CredentialsFailed) for failure in failures)
    assert text in str(failures[0])
    assert str(failures[0]).startswith("credential plugin '/")
    assert plugin.runs == 1


async def test_a_damaged_certificate_is_not_kept(plugin: Plugin, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(plugin_process, "FAILURE_SECONDS", 0.0)
    process = PluginProcess(plugin.entry())
    plugin.answer(clientCertificateData="c", clientKeyData="k")
    with pytest.raises(CredentialsFailed, match="its certificate or key is damaged"):
        await process.get()
    plugin.answer(token="t")
    assert (await process.get()).token == "t"


async def test_a_plugin_that_hangs_has_a_time_limit(plugin: Plugin, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(plugin_process, "RUN_SECONDS", 0.2)
    with pytest.raises(CredentialsFailed, match="did not end within"):
        await PluginProcess(plugin.entry("sleep 600 & wait")).get()


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] in "ZX"
    except FileNotFoundError:
        return True


async def test_a_plugin_ends_with_its_client_and_so_does_what_it_has_started(plugin: Plugin, tmp_path: Path):
    child = tmp_path / "child"

    async def has_begun() -> str:
        return child.read_text().strip() if child.exists() else ""

    async def has_ended() -> bool:
        return is_gone(int(child.read_text()))

    request = asyncio.create_task(PluginProcess(plugin.entry("sleep 600 & echo $! > child; wait")).get())
    await until(has_begun)
    assert not await has_ended()
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request
    await until(has_ended)


async def test_a_plugin_that_is_cancelled_while_it_starts_leaves_no_process(plugin: Plugin, tmp_path: Path):
    async def have_ended() -> bool:
        return str(tmp_path) not in await asyncio.to_thread(subprocess.check_output, ["ps", "-eo", "args"], text=True)

    for steps in range(8):
        script = f"sh -c 'sleep 600; true' {tmp_path} & wait"
        request = asyncio.create_task(PluginProcess(plugin.entry(script)).get())
        for _ in range(steps):
            await asyncio.sleep(0)
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
    await until(have_ended)


async def test_a_missing_plugin_shows_how_to_install_it():
    missing = ExecPlugin(V1, "no-such-plugin", hint="Install it from a.")
    async with ApiClient(ClientConfig("http://127.0.0.1:1", exec_plugin=missing)) as client:
        with pytest.raises(CredentialsFailed, match=r"'no-such-plugin': not found. Install it from a."):
            await client.get(PODS, "a", "d")


async def test_later_requests_do_not_wait_for_a_first_one_without_credentials(
    plugin: Plugin, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(transport, "CONNECT_SECONDS", 600.0)
    config = ClientConfig("http://127.0.0.1:1", exec_plugin=plugin.entry("exit 3"))
    async with ApiClient(config) as client, asyncio.timeout(60):
        for _ in range(2):
            with pytest.raises(CredentialsFailed):
                await client.get(PODS, "a", "d")


async def test_a_plugin_that_needs_a_person_is_refused_without_a_terminal(
    plugin: Plugin, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(CredentialsFailed, match="standard input is not a terminal"):
        await PluginProcess(plugin.entry(mode="Always")).get()


async def test_impersonation_is_in_each_request():
    seen: list[list[str]] = []

    async def handler(request: web.Request) -> web.Response:
        seen.append([f"{name}: {value}" for name, value in request.headers.items() if name.startswith("Impersonate")])
        return pod()

    jane = Impersonation("jane", groups=("a", "b"), extra=(("acme.io/x", "1"),))
    async with serving(handler) as plain, ApiClient(replace(plain, impersonation=jane)) as client:
        await client.get(PODS, "a", "d")
        await client.update(PODS, {"metadata": {"name": "a", "namespace": "d"}})
    headers = [
        "Impersonate-User: jane",
        "Impersonate-Group: a",
        "Impersonate-Group: b",
        "Impersonate-Extra-acme.io%2Fx: 1",
    ]
    assert seen == [headers, headers]


@contextlib.asynccontextmanager
async def tunnelling(tunnels: list[str]) -> AsyncIterator[str]:
    """An HTTP proxy that knows only CONNECT; it appends the targets to `tunnels`."""

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        method, target, _ = (await reader.readuntil(b"\r\n\r\n")).decode().split(" ", 2)
        tunnels.append(f"{method} {target}")
        host, _, port = target.rpartition(":")
        server_reader, server_writer = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            await asyncio.gather(copy(reader, server_writer), copy(server_reader, writer))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        host, port = server.sockets[0].getsockname()
        yield f"http://{host}:{port}"
    finally:
        server.close()


async def test_the_password_of_a_proxy_is_in_no_message(caplog: pytest.LogCaptureFixture):
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    config = ClientConfig("https://127.0.0.1:1", insecure=True, proxy_url=f"http://me:secret@{host}:{port}")
    async with server, ApiClient(config) as client:
        with pytest.raises(Unreachable, match="the proxy answers 407") as refused:
            await client.get(PODS, "a", "d")
    assert "secret" not in f"{refused.value} {caplog.text}"


@contextlib.asynccontextmanager
async def serving_users(
    directory: Path, is_valid: Callable[[str], bool]
) -> AsyncIterator[tuple[ClientConfig, LabFiles]]:
    """A server with TLS for the users that `is_valid` accepts; a certificate is of a user, no certificate of "".

    Yields the configuration of its administrator, and the files of its certificates.
    """
    files = LabFiles(directory)
    make_certificates(LabConfig(name="tls", nodes=1, port=6443), files)
    context = server_context(files.pki / "apiserver.crt", files.pki / "apiserver.key", files.pki / "client-ca.crt")

    async def handler(request: web.Request) -> web.Response:
        assert request.transport is not None
        certificate = request.transport.get_extra_info("ssl_object").getpeercert()
        user = certificate["subject"][-1][0][1] if certificate else ""
        return pod() if is_valid(user) else status(401, "Unauthorized")

    async with serving(handler, context) as plain:
        yield replace(load_kubeconfig(files.kubeconfig), server=plain.server), files


async def test_a_certificate_of_a_plugin_counts_also_through_a_proxy(plugin: Plugin, tmp_path: Path):
    tunnels = list[str]()
    async with (
        serving_users(tmp_path, lambda user: user == "kubernetes-admin") as (admin, files),
        tunnelling(tunnels) as proxy_url,
    ):
        certificate, key = ((files.pki / name).read_text() for name in ("admin.crt", "admin.key"))
        plugin.answer(clientCertificateData=certificate, clientKeyData=key)
        nobody = replace(admin, client_certificate=None, client_key=None)
        async with ApiClient(replace(nobody, exec_plugin=plugin.entry(), proxy_url=proxy_url)) as client:
            await client.get(PODS, "a", "d")
            await client.get(PODS, "a", "d")
        assert tunnels == [f"CONNECT {admin.server.removeprefix('https://')}"]


async def test_certificate_files_are_read_again_when_their_certificate_is_refused(tmp_path: Path):
    valid = "kubernetes-admin"
    mine = certificate, key = tmp_path / "me.crt", tmp_path / "me.key"
    async with serving_users(tmp_path, lambda user: user == valid) as (admin, files):
        certificate.write_bytes((files.pki / "admin.crt").read_bytes())
        key.write_bytes((files.pki / "admin.key").read_bytes())
        async with ApiClient(replace(admin, certificate_files=mine)) as client:
            await client.get(PODS, "a", "d")
            valid = "system:kube-controller-manager"
            certificate.write_bytes((files.pki / "controllers.crt").read_bytes())
            with pytest.raises(Unauthorized):  # the certificate without its key changes nothing
                await client.get(PODS, "a", "d")
            key.write_bytes((files.pki / "controllers.key").read_bytes())
            await client.get(PODS, "a", "d")


async def test_the_file_of_the_ca_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(credentials, "FILE_SECONDS", 0.0)
    Authority(tmp_path)
    file = tmp_path / "ca.crt"
    async with (
        serving_users(tmp_path, lambda user: True) as (admin, _),
        ApiClient(replace(admin, ca=file.read_bytes(), ca_file=file)) as client,
    ):
        with pytest.raises(Unreachable):
            await client.get(PODS, "a", "d")
        assert admin.ca is not None
        file.write_bytes(admin.ca)
        await client.get(PODS, "a", "d")
