"""`bridgehead dns` as a process: ready, several processes on one port, its pages, its zone file, its refusals."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from bridgehead.client import ApiClient
from bridgehead.objects.kinds import SERVICES
from tests.forks import run_bridgehead
from tests.kubeconfigs import write_kubeconfig

from .api_world import DEADLINE, ApiWorld, api_world, free_ports, until
from .certificates import server_certificate
from .dns_world import ask, data_of

pytestmark = pytest.mark.integration

WEB = "web.default.svc.cluster.local"


def kubeconfig(world: ApiWorld, directory: Path) -> str:
    return f"--kubeconfig={world.write_kubeconfig(directory / 'kubeconfig')}"


async def run(*arguments: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", "from bridgehead.cli import main; main()", "dns", *arguments,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, start_new_session=True,
    )  # fmt: skip


@contextlib.asynccontextmanager
async def running(*arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await run(*arguments)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        _, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    assert b"Traceback" not in errors


@pytest.mark.parametrize("processes", [1, 2])
async def test_the_dns_answers_until_sigterm(tmp_path, processes):
    port, health, ready, metrics, _ = free_ports(5)
    async with (
        api_world(server_certificate()) as world,
        ApiClient(world.config) as client,
        aiohttp.ClientSession() as http,
    ):
        spec = {"ports": [{"name": "http", "port": 80}]}
        web = await client.create(SERVICES, {"metadata": {"name": "web"}, "spec": spec}, "default")
        pages = (f"--health=127.0.0.1:{health}", f"--ready=127.0.0.1:{ready}", f"--metrics=127.0.0.1:{metrics}")
        options = (kubeconfig(world, tmp_path), f"--listen=127.0.0.1:{port}", f"--processes={processes}", *pages)

        async def page(number: int, path: str) -> tuple[int, str]:
            try:
                async with http.get(f"http://127.0.0.1:{number}{path}") as reply:
                    return reply.status, await reply.text()
            except aiohttp.ClientConnectionError:
                return 0, ""

        async def is_ready() -> bool:
            return await page(ready, "/ready") == (200, "OK")

        async with running(*options, "--no-upstream"):
            await until(is_ready)
            for _ in range(10):
                assert await until(lambda: data_of(port, WEB, tcp=True)) == [web.spec.cluster_ip]
            assert await data_of(port, WEB) == [web.spec.cluster_ip]
            assert (await ask(port, "example.com")).header.rcode == 5
            assert await page(health, "/health") == (200, "OK")
            assert (await page(health, "/nothing"))[0] == 404
            texts = [(await page(metrics + number, "/metrics"))[1] for number in range(processes)]
            lines = [line for text in texts for line in text.splitlines()]
            counted = [
                float(line.split()[1]) for line in lines if re.match(r'coredns_dns_requests_total\{.*type="A"\}', line)
            ]
            assert sum(counted) >= 12
            assert f'coredns_dns_responses_total{{rcode="REFUSED",server="dns://127.0.0.1:{port}"}} 1.0' in lines
            # Each answered query took its time, and had a size before and after.
            for name in ("request_duration_seconds", "request_size_bytes", "response_size_bytes"):
                counts = [float(line.split()[1]) for line in lines if line.startswith(f"coredns_dns_{name}_count")]
                assert sum(counts) >= 12
                assert any(re.match(rf'coredns_dns_{name}_bucket\{{.*le="\+Inf"', line) for line in lines)
            assert any(line.startswith("process_resident_memory_bytes ") for line in lines)


@pytest.mark.parametrize("processes", [1, 2])
async def test_after_sigterm_the_dns_is_not_ready_but_answers_for_lameduck_seconds(tmp_path, processes):
    port, ready = free_ports(2)
    pages = (f"--ready=127.0.0.1:{ready}", "--health=", "--metrics=")
    async with (
        api_world(server_certificate()) as world,
        ApiClient(world.config) as client,
        aiohttp.ClientSession() as http,
    ):
        web = await client.create(SERVICES, {"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}}, "default")

        async def readiness() -> str:
            try:
                async with http.get(f"http://127.0.0.1:{ready}/ready") as reply:
                    return await reply.text()
            except aiohttp.ClientConnectionError:
                return ""

        async def shows(text: str) -> bool:
            return {await readiness() for _ in range(8)} == {text}

        options = (kubeconfig(world, tmp_path), f"--listen=127.0.0.1:{port}", f"--processes={processes}", *pages)
        async with running(*options, "--no-upstream", "--lameduck=600") as process:
            try:
                await until(lambda: shows("OK"))
                process.send_signal(signal.SIGTERM)
                await until(lambda: shows("Shutting down"))
                assert await data_of(port, WEB) == [web.spec.cluster_ip]
                assert await data_of(port, WEB, tcp=True) == [web.spec.cluster_ip]
            finally:
                os.killpg(process.pid, signal.SIGINT)  # as a terminal does: it has been long enough
            await process.wait()
        async with running(*options, "--no-upstream", "--lameduck=0.1"):
            await until(lambda: shows("OK"))


@pytest.mark.parametrize("victim", [0, 1])
async def test_all_processes_end_when_one_ends(tmp_path, victim):
    (port,) = free_ports(1)
    async with api_world(server_certificate()) as world:
        options = (kubeconfig(world, tmp_path), f"--listen=127.0.0.1:{port}", "--processes=2", "--no-upstream")
        process = await run(*options, "--health=", "--ready=", "--metrics=")
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")

        async def both() -> list[str]:
            found = children.read_text().split()  # noqa: ASYNC240 - it is in /proc
            return found if len(found) == 2 else []

        os.kill(int((await until(both))[victim]), signal.SIGKILL)
        _, errors = await process.communicate()
    assert process.returncode == 1
    assert b"ended with status 9" in errors


async def test_dump_prints_the_zone(tmp_path):
    async with api_world(server_certificate()) as world, ApiClient(world.config) as client:
        spec = {"ports": [{"name": "http", "port": 80}]}
        web = await client.create(SERVICES, {"metadata": {"name": "web"}, "spec": spec}, "default")
        process = await run(kubeconfig(world, tmp_path), "--dump", "--ttl=30")
        out, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    lines = out.decode().splitlines()
    assert lines[0] == "$ORIGIN cluster.local."
    assert lines[1].startswith("cluster.local. 30 IN SOA ")
    assert lines[2].startswith("cluster.local. 30 IN NS ")
    assert f"{WEB}. 30 IN A {web.spec.cluster_ip}" in lines
    assert f"_http._tcp.{WEB}. 30 IN SRV 0 100 80 {WEB}." in lines
    assert lines[-1].endswith(f"IN PTR {WEB}.") or lines[-1].endswith("IN PTR kubernetes.default.svc.cluster.local.")


async def test_options_override_the_corefile(tmp_path):
    corefile = tmp_path / "Corefile"
    corefile.write_text(".:53 {\n kubernetes k8s.example {\n  ttl 30\n }\n}\n")
    async with api_world(server_certificate()) as world:
        process = await run(kubeconfig(world, tmp_path), "--dump", f"--config={corefile}", "--ttl=7")
        out, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    assert "kubernetes.default.svc.k8s.example. 7 IN A 10.96.0.1" in out.decode()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--config=/nowhere/Corefile"], "/nowhere/Corefile: No such file or directory"),
        (["--config=/dev/null"], "no server block has a `kubernetes`"),
        (["--kubeconfig=/nowhere/config"], "/nowhere/config: No such file or directory"),
        (["--upstream=example.com"], "upstream 'example.com' is not an address"),
        (["--upstream=1.1.1.1:x"], "'x' is not a port"),
        (["--listen=0.0.0.0:5301", "--upstream=127.0.0.1:5301"], "127.0.0.1:5301 is this server itself"),
        (["--listen=1:2:3"], "cannot listen on 1:2:3"),
        (["--cluster-domain=a..b"], "'a..b' is not a domain name"),
        (["--pods=maybe"], "pods 'maybe': one of disabled, insecure, verified"),
        (["--ttl=4000"], "ttl 4000"),
        (["--resolv-conf=/nowhere/resolv.conf"], "/nowhere/resolv.conf: No such file"),
        (["--listen=127.0.0.1:PORT", "--no-upstream"], "cannot listen on 127.0.0.1:"),
    ],
)
def test_errors_are_printed_in_one_line(tmp_path, arguments, message):
    config = f"--kubeconfig={write_kubeconfig(tmp_path / 'kubeconfig', 'http://127.0.0.1:9', token='admin')}"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        given = (text.replace("PORT", port) for text in arguments)
        result = run_bridgehead("dns", config, *given, timeout=DEADLINE)
    assert result.returncode == 1
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
