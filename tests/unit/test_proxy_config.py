"""KubeProxyConfiguration: what is read, what is refused, what is warned about; health and metrics as kube-proxy's."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from bridgehead.proxy.config import ProxyConfig, parse_bind_address, parse_config, parse_duration, parse_mode
from bridgehead.proxy.errors import ConfigInvalid
from bridgehead.proxy.metrics import ProxyHealth, ProxyMetrics
from bridgehead.proxy.serving import health_routes, metrics_routes, serve

HEAD = {"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration"}

# What kubeadm writes.
KUBEADM: dict[str, Any] = HEAD | {
    "bindAddress": "0.0.0.0",
    "bindAddressHardFail": False,
    "clientConnection": {"acceptContentTypes": "", "burst": 0, "contentType": "", "kubeconfig": "/x.conf", "qps": 0},
    "clusterCIDR": "10.244.0.0/16",
    "configSyncPeriod": "0s",
    "conntrack": {"maxPerCore": None, "min": None, "tcpCloseWaitTimeout": None, "tcpEstablishedTimeout": None},
    "detectLocal": {"bridgeInterface": "", "interfaceNamePrefix": ""},
    "detectLocalMode": "",
    "enableProfiling": False,
    "healthzBindAddress": "",
    "hostnameOverride": "",
    "iptables": {"masqueradeAll": False, "masqueradeBit": None, "minSyncPeriod": "0s", "syncPeriod": "0s"},
    "ipvs": {"excludeCIDRs": None, "scheduler": "", "syncPeriod": "0s"},
    "metricsBindAddress": "",
    "mode": "",
    "nodePortAddresses": None,
    "oomScoreAdj": None,
    "portRange": "",
    "showHiddenMetricsForVersion": "",
    "winkernel": {"enableDSR": False},
}


def test_what_kubeadm_writes_is_understood_without_a_warning() -> None:
    config = parse_config(KUBEADM)

    assert config == ProxyConfig(kubeconfig="/x.conf", cluster_cidrs=("10.244.0.0/16",))


def test_every_used_field_is_read() -> None:
    config = parse_config(
        HEAD
        | {
            "mode": "nftables",
            "hostnameOverride": "n",
            "clusterCIDR": "10.244.0.0/16,fd00::/48",
            "detectLocalMode": "NodeCIDR",
            "nodePortAddresses": ["10.0.0.0/24"],
            "nftables": {"masqueradeAll": True, "syncPeriod": "1m", "minSyncPeriod": "500ms"},
            "healthzBindAddress": "127.0.0.1:1",
            "metricsBindAddress": "[::1]:2",
        }
    )

    assert config == ProxyConfig(
        hostname_override="n",
        cluster_cidrs=("10.244.0.0/16", "fd00::/48"),
        detect_local_mode="NodeCIDR",
        node_port_addresses=("10.0.0.0/24",),
        masquerade_all=True,
        sync_period=60.0,
        min_sync_period=0.5,
        healthz=("127.0.0.1", 1),
        metrics=("::1", 2),
    )
    assert parse_config(HEAD | {"nodePortAddresses": ["primary"]}).node_port_addresses == ("primary",)


def test_what_asks_for_something_unused_is_told() -> None:
    asked = HEAD | {"conntrack": {"maxPerCore": 32768}, "nftables": {"masqueradeBit": 14}, "foo": "bar"}

    assert parse_config(asked).warnings == (
        "conntrack is not used",
        "nftables.masqueradeBit is not used",
        "foo is not used",
    )


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ([], "not a KubeProxyConfiguration"),
        ({"kind": "ConfigMap"}, "kind: 'ConfigMap'"),
        ({"kind": "KubeProxyConfiguration", "apiVersion": "v1"}, "apiVersion: 'v1'"),
        (HEAD | {"mode": "ipvs"}, "mode: 'ipvs' is not there yet; iptables and nftables are"),
        (HEAD | {"mode": "nonsense"}, "mode: 'nonsense' is no proxy mode"),
        (HEAD | {"mode": 3}, "mode: 3 is not a string"),
        (HEAD | {"clusterCIDR": "10.244.0.0"}, "clusterCIDR: '10.244.0.0' is not a range"),
        (HEAD | {"detectLocalMode": "BridgeInterface"}, "detectLocalMode: 'BridgeInterface'"),
        (HEAD | {"nodePortAddresses": "10.0.0.0/8"}, "nodePortAddresses: not a list"),
        (HEAD | {"nftables": []}, "nftables: not an object"),
        (HEAD | {"nftables": {"syncPeriod": "soon"}}, "nftables.syncPeriod: 'soon'"),
        (HEAD | {"nftables": {"masqueradeAll": "yes"}}, "masqueradeAll: 'yes'"),
        (HEAD | {"healthzBindAddress": "x:y"}, "healthzBindAddress: 'x:y'"),
    ],
)
def test_what_is_wrong_is_refused_by_its_field(document: object, text: str) -> None:
    with pytest.raises(ConfigInvalid) as caught:
        parse_config(document)
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


def test_each_mode_reads_its_own_section() -> None:
    both = HEAD | {
        "iptables": {"masqueradeAll": True, "syncPeriod": "1m", "localhostNodePorts": True},
        "nftables": {"syncPeriod": "2m", "masqueradeBit": 3},
    }

    config = parse_config(both | {"mode": "iptables"})
    assert (config.mode, config.masquerade_all, config.sync_period) == ("iptables", True, 60.0)
    assert config.warnings == ("iptables.localhostNodePorts is not used",)
    assert parse_config(both, "iptables") == config, "a mode on the command line goes before"
    config = parse_config(both)
    assert (config.mode, config.masquerade_all, config.sync_period) == ("nftables", False, 120.0)
    assert config.warnings == ("nftables.masqueradeBit is not used",)


def test_the_default_mode_is_nftables() -> None:
    assert parse_mode("") == "nftables"


@pytest.mark.parametrize(("text", "seconds"), [("0", 0), ("30s", 30), ("1m30s", 90), ("1.5h", 5400), ("100ms", 0.1)])
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("text", "address"),
    [("", ("0.0.0.0", 10256)), ("127.0.0.1", ("127.0.0.1", 10256)), ("::1", ("::1", 10256)), ("0.0.0.0:0", None)],
)
def test_bind_addresses(text: str, address: tuple[str, int] | None) -> None:
    assert parse_bind_address("x", text, ("0.0.0.0", 10256)) == address


def test_health_is_lost_only_while_a_change_waits_too_long() -> None:
    now = [1000.0]
    health = ProxyHealth(60, lambda: now[0])

    now[0] += 59
    assert health.is_alive
    now[0] += 1
    assert not health.is_alive, "nothing was programmed since the start"
    health.updated()
    now[0] += 1000
    assert health.is_alive, "no change, no need to sync"
    health.queued()
    now[0] += 30
    health.queued()
    now[0] += 30
    assert not health.is_alive, "the first change counts, not the last"


async def ask(port: int, request: bytes) -> tuple[int, bytes]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), body


async def test_the_little_servers_answer() -> None:
    health, metrics = ProxyHealth(60, lambda: 1000.0), ProxyMetrics()
    metrics.service_changes.inc(3)
    routes = {**metrics_routes(metrics, "nftables"), **health_routes(health)}
    port = 0
    for port in range(20256, 20356):  # serve() takes a fixed port; find a free one
        server = asyncio.create_task(serve(("127.0.0.1", port), routes))
        await asyncio.sleep(0)
        done, _ = await asyncio.wait({server}, timeout=0.05)
        if not done:
            break
        server.exception()
    try:
        assert (await ask(port, b"GET /healthz HTTP/1.1\r\n\r\n"))[0] == 503, "there are no rules yet"
        assert (await ask(port, b"GET /livez HTTP/1.1\r\n\r\n"))[0] == 200
        health.updated()
        assert (await ask(port, b"GET /healthz HTTP/1.1\r\n\r\n"))[0] == 200
        health.is_node_eligible = False
        assert (await ask(port, b"GET /healthz HTTP/1.1\r\n\r\n"))[0] == 503
        assert (await ask(port, b"GET /livez?x HTTP/1.1\r\n\r\n"))[0] == 200
        assert await ask(port, b"GET /proxyMode HTTP/1.1\r\n\r\n") == (200, b"nftables")
        _, body = await ask(port, b"GET /metrics HTTP/1.1\r\n\r\n")
        assert b"kubeproxy_sync_proxy_rules_service_changes_total 3.0\n" in body
        assert b"kubeproxy_network_programming_duration_seconds_bucket" in body
        assert (await ask(port, b"GET /x HTTP/1.1\r\n\r\n"))[0] == 404
        assert (await ask(port, b"POST /healthz HTTP/1.1\r\n\r\n"))[0] == 405
        assert await ask(port, b"HEAD /healthz HTTP/1.1\r\n\r\n") == (503, b"")
    finally:
        server.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await server
