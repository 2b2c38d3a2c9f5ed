"""`bridgehead proxy` at work: its ports, its metrics, its end; against a real API server, in namespaces of its own."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import re
import signal
import socket
import ssl
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from bridgehead.client import ApiClient
from bridgehead.objects.core import Event
from bridgehead.objects.kinds import EVENTS, LEASES, SERVICES
from bridgehead.objects.meta import ObjectKey
from bridgehead.objects.progress import NAMESPACE, ModeInUse, Progress, read_progress
from bridgehead.proxy.commands import find_command
from bridgehead.proxy.frontend_table import FrontendTable
from bridgehead.proxy.frontends import Backend, Frontend, FrontendKey, Publication, ServiceFrontends
from bridgehead.proxy.mode import Settings
from bridgehead.proxy.mode_choice import let_through, open_mode
from tests.integration.api_world import ApiWorld, api_world
from tests.integration.certificates import server_certificate
from tests.integration.namespaced import in_namespace, sh
from tests.unit.proxy.agent_world import eventually

pytestmark = [pytest.mark.integration, pytest.mark.needs("nft")]

needs_iptables = pytest.mark.needs("iptables")
PROXY = (sys.executable, "-c", "from bridgehead.cli import main; main()", "proxy")
IPTABLES = ("iptables", "ip6tables")
SPEC = {"clusterIP": "10.96.0.77", "ports": [{"port": 80}]}
_UNVERIFIED = ssl._create_unverified_context()
HEALTH, METRICS = "http://127.0.0.1:10256", "http://127.0.0.1:10249"


def kubeconfig(world: ApiWorld) -> str:
    path = Path("/run/kubeconfig")  # a file system of the test's own
    return str(world.write_kubeconfig(path))


@contextlib.asynccontextmanager
async def proxy(world: ApiWorld, *options: str) -> AsyncIterator[asyncio.subprocess.Process]:
    command = [*PROXY, "--kubeconfig", kubeconfig(world), "--node-name", "node1", *options]
    process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def ask(url: str, seconds: float = 20) -> tuple[int, str]:
    """Status and body; 0 when nobody answers for so long."""

    def get() -> tuple[int, str]:
        try:
            with urllib.request.urlopen(url, timeout=seconds, context=_UNVERIFIED) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except (OSError, http.client.HTTPException):  # it may go away at any byte
            return 0, ""

    return await asyncio.to_thread(get)


async def becomes(url: str, status: int) -> str:
    async with asyncio.timeout(60):
        while (answer := await ask(url))[0] != status:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    return answer[1]


@pytest.mark.parametrize(
    ("mode", "failures"),
    [
        ("nftables", "nftables_sync_failures"),
        pytest.param(
            "iptables",
            "iptables_restore_failures",
            marks=needs_iptables,
        ),
    ],
)
@in_namespace
async def test_health_and_metrics_match_kube_proxys(mode: str, failures: str) -> None:
    async with api_world(server_certificate()) as world, ApiClient(world.config) as client:
        written = "/run/config.yaml"
        options = ("--proxy-mode", mode, "--healthz-bind-address", "127.0.0.1:10256", "--oom-score-adj", "1000")
        async with proxy(world, "--write-config-to", written, *options) as process:
            assert await process.wait() == 0
        async with proxy(world, "--config", written) as process:
            body = await becomes(f"{HEALTH}/healthz", 200)
            assert re.match(
                r'{"lastUpdated":"20[^"]*Z","currentTime":"20[^"]*Z","nodeEligible":true,"healthy":true,', body
            )
            assert sorted(json.loads(body)["status"]) == ["IPv4", "IPv6"]
            assert f"\nproxy-mode={''}\n" in (await ask(f"{METRICS}/flagz"))[1]
            assert sh(f"cat /proc/{process.pid}/oom_score_adj") == "1000\n"
            assert (await ask(f"{HEALTH}/livez"))[0] == 200
            assert await ask(f"{METRICS}/proxyMode") == (200, mode)
            await client.create(SERVICES, {"metadata": {"name": "s"}, "spec": SPEC}, "default")
            await eventually(lambda: "10.96.0.77" in sh("nft list ruleset"))
            metrics = (await ask(f"{METRICS}/metrics"))[1]
            for name in (
                f'sync_proxy_rules_{failures}_total{{ip_family="IPv4"}} 0.0',
                'sync_proxy_rules_duration_seconds_count{ip_family="IPv4"} ',
                'sync_full_proxy_rules_duration_seconds_count{ip_family="IPv4"} ',
                'sync_partial_proxy_rules_duration_seconds_count{ip_family="IPv4"} ',
                "network_programming_duration_seconds_bucket",
                'sync_proxy_rules_service_changes_total{ip_family="IPv4"} 2.0',
                'sync_proxy_rules_service_changes_total{ip_family="IPv6"} 2.0',
                'sync_proxy_rules_endpoint_changes_total{ip_family="IPv4"} ',
                'sync_proxy_rules_endpoint_changes_pending{ip_family="IPv4"} ',
                'sync_proxy_rules_service_changes_pending{ip_family="IPv4"} ',
                'sync_proxy_rules_last_queued_timestamp_seconds{ip_family="IPv4"} ',
                'sync_proxy_rules_last_timestamp_seconds{ip_family="IPv4"} ',
                'sync_proxy_rules_no_local_endpoints_total{ip_family="IPv4",traffic_policy="external"} 0.0',
                'proxy_healthz_total{code="200"} ',
                'proxy_livez_total{code="200"} 1.0',
            ):
                assert f"\nkubeproxy_{name}" in metrics, name
            assert "\nprocess_resident_memory_bytes " in metrics
            assert "_created" not in metrics, "a series of Python's client library alone"
            for table in ("filter", "nat") if mode == "iptables" else ():
                for ip, family in zip(IPTABLES, ("IPv4", "IPv6"), strict=True):
                    count = len(re.findall("^-A KUBE-", sh(f"{ip}-save -t {table}"), re.MULTILINE))
                    labels = f'ip_family="{family}",table="{table}"'
                    shown = f"kubeproxy_sync_proxy_rules_iptables_total{{{labels}}} {count}.0"
                    assert shown in metrics.splitlines()
            process.send_signal(signal.SIGTERM)
            assert await process.wait() == 0
            assert "10.96.0.77" in sh("nft list ruleset"), "rules outlive the proxy"


@in_namespace
async def test_a_port_in_use_is_only_fatal_with_bind_address_hard_fail() -> None:
    async with api_world(server_certificate()) as world:
        with socket.create_server(("127.0.0.1", 10249)):
            async with proxy(world, "--bind-address-hard-fail") as process:
                assert process.stderr is not None
                lines = (await process.stderr.read()).decode().splitlines()
                assert lines[-1] == (
                    "bridgehead proxy: cannot serve metrics on 127.0.0.1:10249: Address already in use"
                )
                assert await process.wait() == 1
            async with proxy(world) as process:
                await becomes(f"{HEALTH}/healthz", 200)
                assert (await ask("http://[::1]:10256/healthz"))[0] == 200, (
                    "0.0.0.0 is every address, as with kube-proxy"
                )
                assert process.stderr is not None
                async for line in process.stderr:
                    if b"cannot serve metrics on 127.0.0.1:10249: Address already in use; trying again" in line:
                        break
                else:
                    raise AssertionError("the port in use is not reported")


def hide(*commands: str) -> None:
    """Let programs be missing in this mount namespace."""
    for path in {os.path.realpath(found) for found in map(find_command, commands) if found is not None}:
        sh(f"mount --bind /dev/null {path}")


XTABLES = ("iptables-nft", "iptables-legacy")


@pytest.mark.parametrize(
    ("wanted", "hidden", "used", "reason"),
    [
        ("iptables", XTABLES, "nftables", "the iptables commands are not here: install the package iptables"),
        ("nonsense", (), "nftables", "'nonsense' is no proxy mode; iptables, ipvs, nftables and userspace are"),
        pytest.param("nftables", ("nft",), "iptables", "install the package nftables", marks=needs_iptables),
        pytest.param("userspace", ("nft",), "iptables", "install the package nftables", marks=needs_iptables),
        (
            "ipvs",
            XTABLES,
            "nftables",
            "modes ipvs and iptables cannot be used on this node: the iptables commands are not here",
        ),
    ],
)
@in_namespace
async def test_a_proxy_that_cannot_use_its_mode_serves_in_another_and_reports_it(
    wanted: str, hidden: list[str], used: str, reason: str
) -> None:
    async with api_world(server_certificate()) as world, ApiClient(world.config) as client:
        await client.create(SERVICES, {"metadata": {"name": "s"}, "spec": SPEC}, "default")
        head = "apiVersion: kubeproxy.config.k8s.io/v1alpha1, kind: KubeProxyConfiguration"
        sh(f"echo '{{{head}, mode: {wanted}}}' >/run/config.yaml")
        rules = f"{'iptables-save' if used == 'iptables' else 'nft list ruleset'} | cat"
        if used == "iptables":
            sh("iptables-nft -t mangle -N KUBE-IPTABLES-HINT")
        hide(*hidden)
        async with proxy(world, "--config", "/run/config.yaml"):
            await becomes(f"{HEALTH}/healthz", 200)
            assert "10.96.0.77" in sh(rules)
            assert await ask(f"{METRICS}/proxyMode") == (200, used)
            [event] = await warnings_of_node(client)
            progress = await published(client)
        assert event.reason == "ProxyModeUnavailable"
        assert reason in event.message
        assert event.message.endswith(f"; services are served in mode {used}")
        assert progress.mode == ModeInUse(used, wanted, event.message)


async def warnings_of_node(client: ApiClient) -> list[Event]:
    """Wait for the first."""
    async with asyncio.timeout(60):
        while True:
            events = (await client.list(EVENTS, field_selector="involvedObject.kind=Node")).items
            if found := [event for event in events if event.type == "Warning"]:
                return found
            await asyncio.sleep(0.02)


async def published(client: ApiClient) -> Progress:
    """Wait for the progress of the only proxy."""
    async with asyncio.timeout(60):
        while True:
            for lease in (await client.list(LEASES, NAMESPACE)).items:
                if (progress := read_progress(lease)) is not None:
                    return progress
            await asyncio.sleep(0.02)


@needs_iptables
@in_namespace
async def test_a_node_without_ip6tables_is_served_in_ipv4_and_warned_of() -> None:
    """On Alpine, ip6tables is a package of its own. kube-proxy serves one family then, too."""
    directory = os.path.dirname(find_command("iptables-nft") or "")
    sh(f"mkdir /run/sbin && cp -a {directory}/xtables-* {directory}/iptables* {directory}/nft {directory}/ip /run/sbin")
    sh(f"mount --bind /run/sbin {directory}")
    async with api_world(server_certificate()) as world, ApiClient(world.config) as client:
        await client.create(SERVICES, {"metadata": {"name": "s"}, "spec": SPEC}, "default")
        async with proxy(world, "--proxy-mode", "iptables"):
            await becomes(f"{HEALTH}/healthz", 200)
            [event] = await warnings_of_node(client)
    assert event.message.startswith("mode iptables cannot serve IPv6 on this node: install the package iptables")
    assert event.message.endswith("; services are served in mode iptables")


def captured(address: str, port: int) -> FrontendTable:
    """The table of a proxy that gave a Service an external IP which is another host's address."""
    table = FrontendTable()
    for name, key, backend in (
        ("thief", FrontendKey(address, "tcp", port), "10.244.6.6"),
        ("honest", FrontendKey("10.96.0.99", "tcp", 80), "10.244.6.7"),
    ):
        cluster_ips = (key.address,) if name == "honest" else ()
        frontend = Frontend(key=key, owner=f"default/{name}:", backends=(Backend(backend, 80),))
        if name == "thief":
            frontend = msgspec.structs.replace(frontend, published_as=Publication.EXTERNAL_IP)
        service = ObjectKey("default", name)
        table.update(service, ServiceFrontends(service=service, frontends=(frontend,), cluster_ips=cluster_ips))
    return table


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("nftables", "nftables"),
        ("userspace", "nftables"),
        pytest.param("iptables", "iptables", marks=needs_iptables),
        pytest.param("iptables", "nftables", marks=needs_iptables),
        pytest.param("nftables", "iptables", marks=needs_iptables),
    ],
)
@in_namespace
async def test_a_proxy_bypasses_rules_that_cut_it_off_from_the_api_server(old: str, new: str) -> None:
    if "iptables" in (old, new):  # in its nft variant
        sh("iptables-nft -t mangle -N KUBE-IPTABLES-HINT")
    async with api_world(server_certificate()) as world:
        host, _, port = world.config.server.rpartition("/")[2].partition(":")
        async with open_mode(old) as mode:
            mode.configure(Settings((4,), (), ("10.96.0.0/12",)))
            await mode.sync(captured(host, int(port)))
        assert await ask(f"https://{host}:{port}/version", seconds=1) == (0, ""), "it is cut off"

        async with proxy(world, "--proxy-mode", new):
            await becomes(f"{HEALTH}/healthz", 200)
            assert (await ask(f"https://{host}:{port}/version"))[0] == 200
            await eventually(lambda: f"{host} . tcp . {port}" not in sh("nft list ruleset"))
            rules = sh("nft list ruleset; iptables-nft-save") if new == "iptables" else sh("nft list ruleset")
            await eventually(lambda: f"dport {port} " not in sh("nft list ruleset"))
            assert f"--dport {port} " not in rules


@pytest.mark.parametrize("name", ["nftables", pytest.param("iptables", marks=needs_iptables)])
@in_namespace
async def test_a_cluster_ip_of_the_api_server_stays_in_the_rules(name: str) -> None:
    """A proxy started during an outage reaches the API server by these rules only."""
    if name == "iptables":
        sh("iptables-nft -t mangle -N KUBE-IPTABLES-HINT")
    async with open_mode(name) as mode:
        mode.configure(Settings((4,), (), ("10.96.0.0/12",)))
        await mode.sync(captured("203.0.113.1", 443))
        before = sh("nft list ruleset")

        assert await let_through("10.96.0.99", 80) == []
        assert sh("nft list ruleset") == before
        assert await let_through("203.0.113.1", 443) == [name]
        assert await let_through("203.0.113.1", 443) == [], "it is done"
