"""The effects of KubeProxyConfiguration on the rules, read back from the real kernel."""

from __future__ import annotations

import asyncio
import re
import socket
from dataclasses import replace
from typing import Any

import pytest

from bridgehead.objects.kinds import ENDPOINT_SLICES, SERVICES
from bridgehead.proxy.mode_choice import open_mode
from bridgehead.proxy.sysctls import apply_sysctls, plan_sysctls
from tests.integration.namespaced import in_namespace, sh
from tests.unit.proxy.agent_world import CONFIG, ScriptedApi, eventually, running, service, slice_of

pytestmark = [pytest.mark.integration, pytest.mark.needs("nft", "iptables-nft")]

LISTING = {"nftables": "nft list ruleset", "iptables": "iptables-nft-save"}
BRIDGE = {"detect_local_mode": "BridgeInterface", "pod_interface": "cbr0", "cluster_cidrs": ()}
PREFIX = {"detect_local_mode": "InterfaceNamePrefix", "pod_interface": "veth*", "cluster_cidrs": ()}
# Mode, what is configured, what is in the rules then, and what isn't.
CASES: list[tuple[str, dict[str, Any], str, str]] = [
    ("nftables", {}, r"ip saddr != 10\.244\.0\.0/16 meta mark set meta mark \| 0x0*4000", "iifname"),
    ("nftables", BRIDGE, r'iifname != "cbr0" meta mark set', r"saddr != 10\."),
    ("nftables", BRIDGE, r'iifname "cbr0" goto', r"saddr 10\."),
    ("nftables", PREFIX, r'iifname != "veth\*" meta mark set', r"saddr != 10\."),
    ("nftables", {"masquerade_bit": 3}, r"meta mark set meta mark \| 0x0*8\b", r"0x0*4000\b"),
    ("nftables", {"masquerade_bit": 15}, r"meta mark set meta mark \| 0x0*8000\b", r"= 0x0*4000 masquerade"),
    ("nftables", {"masquerade_all": True}, r"one-of-3-or-fewer-masquerade", r"saddr != 10\."),
    ("iptables", {}, r"! -s 10\.244\.0\.0/16 .*-j KUBE-MARK-MASQ", r" -i "),
    ("iptables", BRIDGE, r"! -i cbr0 .*-j KUBE-MARK-MASQ", r"-s 10\.244\.0\.0/16"),
    ("iptables", BRIDGE, r"-A KUBE-EXT-.* -i cbr0 .*pod traffic", r"-s 10\.244\.0\.0/16"),
    ("iptables", PREFIX, r"! -i veth\+ .*-j KUBE-MARK-MASQ", r"-s 10\.244\.0\.0/16"),
    (
        "iptables",
        {"cluster_cidrs": ("0.0.0.0/0",)},
        r" -d 10\.96\.0\.1/32 .*-j KUBE-SVC",
        r"0\.1/32 .*-j KUBE-MARK-MASQ",
    ),
    ("iptables", {"cluster_cidrs": ("10.244.0.0/16", "10.245.0.0/16")}, r"! -s 10\.24.*! --src-range 10\.24", r" -i "),
    ("iptables", {"masquerade_bit": 3}, r"--set-xmark 0x8/0x8", "0x4000"),
    ("iptables", {"masquerade_all": True}, r"10\.96\.0\.1/32 .*-j KUBE-MARK-MASQ", r"! -s 10\."),
]


@pytest.mark.parametrize("mode_name", LISTING)
@in_namespace
async def test_configured_sysctls_are_in_the_kernel(mode_name: str) -> None:
    if mode_name == "iptables":
        sh("iptables-nft -t mangle -N KUBE-IPTABLES-HINT")
    for mode_of_case, changed, expected, unexpected in CASES:
        if mode_of_case != mode_name:
            continue
        api = ScriptedApi()
        api.put(SERVICES, service("web", "10.96.0.1"))
        published = {"ports": [{"name": "http", "port": 80, "nodePort": 30080}], "externalTrafficPolicy": "Local"}
        api.put(SERVICES, service("local", "10.96.0.2", type="NodePort", **published))
        for name in ("web", "local"):
            api.put(ENDPOINT_SLICES, slice_of(name, "10.244.1.1", "10.244.1.2"))
        async with open_mode(mode_name) as mode:
            async with running(api, mode, config=replace(CONFIG, **changed)) as agent:
                listing = sh(LISTING[mode_name])
            assert re.search(expected, listing), (changed, expected, listing)
            assert not re.search(unexpected, listing), (changed, unexpected, listing)
            sh("nft add table ip somebodys; nft delete table ip somebodys")  # so that there is something to look for
            assert await mode.verify(agent._programmer.table, thoroughly=True) is None, changed


@pytest.mark.parametrize("is_open", [True, False])
@in_namespace
async def test_node_ports_answer_on_localhost(is_open: bool) -> None:
    """A registry on localhost:30500 is reached like this, in iptables mode only, as with kube-proxy."""
    sh("iptables-nft -t mangle -N KUBE-IPTABLES-HINT")
    sh("ip link add veth0 type veth peer name veth1; ip address add 10.0.0.201/24 dev veth0; ip link set veth0 up")
    config = replace(CONFIG, mode="iptables", localhost_node_ports=is_open)
    apply_sysctls(plan_sysctls(config, 1))
    api = ScriptedApi()
    ports = [{"name": "http", "port": 80, "nodePort": 30080}]
    api.put(SERVICES, service("web", "10.96.0.1", type="NodePort", ports=ports))
    api.put(ENDPOINT_SLICES, slice_of("web", "10.0.0.201"))

    def connect(address: str) -> bool:
        try:
            # A client that is not let through gets no answer.
            socket.create_connection((address, 30080), 60 if is_open else 2).close()
        except OSError:
            return False
        return True

    with socket.create_server(("10.0.0.201", 8080)):
        async with open_mode("iptables") as mode, running(api, mode, config=config):
            await eventually(lambda: connect("10.0.0.201"))
            assert await asyncio.to_thread(connect, "127.0.0.1") is is_open
