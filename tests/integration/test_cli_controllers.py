"""`bridgehead controllers` as a process, over TLS, with the certificates a lab makes."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import signal
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from bridgehead.apiserver.http.server import server_context
from bridgehead.client import ApiClient, load_kubeconfig
from bridgehead.client.errors import ConfigError, Forbidden, NotFound, Unreachable
from bridgehead.lab.certificates import make_certificates
from bridgehead.lab.plan import LabConfig, LabFiles
from bridgehead.objects.kinds import CONFIG_MAPS, LEASES, NODES

from .api_world import ApiWorld, until

pytestmark = pytest.mark.integration


@contextlib.asynccontextmanager
async def secured(tmp_path: Path) -> AsyncIterator[LabFiles]:
    """An API server with certificates; the kubeconfigs of the files lead to it."""
    files = LabFiles(tmp_path / "lab")
    files.root.mkdir()
    make_certificates(LabConfig(name="test", nodes=1, port=1), files)
    pki = files.pki
    world = ApiWorld(server_context(pki / "apiserver.crt", pki / "apiserver.key", pki / "ca.crt"))
    await world.start()
    try:
        for path in (files.kubeconfig, files.part_kubeconfig("controllers")):
            document = yaml.safe_load(path.read_text())
            document["clusters"][0]["cluster"]["server"] = world.config.server
            path.write_text(yaml.safe_dump(document))
        yield files
    finally:
        await world.close()


async def test_certificates_authenticate_server_and_client(tmp_path):
    async with secured(tmp_path) as files:
        admin = load_kubeconfig(files.kubeconfig)
        async with ApiClient(admin) as client:
            assert (await client.list(NODES)).items == []
        async with ApiClient(dataclasses.replace(admin, client_certificate=None, client_key=None)) as client:
            with pytest.raises(Forbidden, match="system:anonymous"):
                await client.list(NODES)
        foreign = LabFiles(tmp_path / "other")
        foreign.root.mkdir()
        make_certificates(LabConfig(name="other", nodes=1, port=1), foreign)
        async with ApiClient(dataclasses.replace(admin, ca=(foreign.pki / "ca.crt").read_bytes())) as client:
            with pytest.raises(Unreachable, match="certificate"):
                await client.list(NODES)
        async with ApiClient(dataclasses.replace(admin, ca=None, insecure=True)) as client:
            await client.list(NODES)


@pytest.mark.parametrize("field", ["ca", "client_certificate", "client_key"])
async def test_damaged_certificates_are_refused_in_one_line(tmp_path, field):
    files = LabFiles(tmp_path / "lab")
    files.root.mkdir()
    make_certificates(LabConfig(name="test", nodes=1, port=1), files)
    damaged: dict[str, Any] = {field: b"damaged"}
    config = dataclasses.replace(load_kubeconfig(files.kubeconfig), **damaged)
    with pytest.raises(ConfigError, match="damaged"):
        ApiClient(config)


async def run(*arguments: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", "from bridgehead.cli import main; main()", "controllers", *arguments,
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip


async def test_controllers_run_until_sigterm(tmp_path):
    async with secured(tmp_path) as files, ApiClient(load_kubeconfig(files.kubeconfig)) as client:
        process = await run(
            f"--kubeconfig={files.part_kubeconfig('controllers')}", f"--root-ca-file={files.pki / 'ca.crt'}"
        )
        try:

            async def has_root_ca() -> bool:
                try:
                    found = await client.get(CONFIG_MAPS, "kube-root-ca.crt", "default")
                except NotFound:
                    return False
                return found.data["ca.crt"] == (files.pki / "ca.crt").read_text()

            await until(has_root_ca)
            lease = await client.get(LEASES, "kube-controller-manager", "kube-system")
            assert lease.spec.holder_identity
        finally:
            process.send_signal(signal.SIGTERM)
            _, errors = await process.communicate()
        assert process.returncode == 0
        assert b"Traceback" not in errors
        assert b"forbidden" not in errors, errors.decode()
        lease = await client.get(LEASES, "kube-controller-manager", "kube-system")
        assert not lease.spec.holder_identity, "the next one may begin at once"


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["--kubeconfig=/nowhere/config"], 1, "/nowhere/config: No such file or directory"),
        (["--controllers=nope"], 2, "no controller 'nope'"),
        (["--root-ca-file=/nowhere/ca"], 1, "/nowhere/ca"),
    ],
)
async def test_missing_prerequisites_are_reported_in_one_line(arguments, code, text):
    process = await run(*arguments)
    _, errors = await process.communicate()
    assert process.returncode == code
    assert text in errors.decode()
    assert errors.count(b"\n") == 1


async def test_a_taken_port_of_metrics_is_reported_in_one_line(tmp_path):
    async with secured(tmp_path) as files:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            taken = f"127.0.0.1:{listener.getsockname()[1]}"
            process = await run(f"--kubeconfig={files.part_kubeconfig('controllers')}", f"--metrics={taken}")
            _, errors = await process.communicate()
    assert process.returncode == 1
    assert errors.decode() == f"bridgehead controllers: {taken}: Address already in use\n"
