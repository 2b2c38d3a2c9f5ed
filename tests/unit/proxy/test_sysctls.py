"""Kernel settings that follow from the configuration, and what becomes of those that cannot be written."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import pytest

from bridgehead.proxy.config import ConntrackOptions, ProxyConfig
from bridgehead.proxy.sysctls import Sysctl, apply_sysctls, kernel_families, plan_sysctls

CONNTRACK = "net/netfilter/nf_conntrack_"
HASH_SIZE = "/sys/module/nf_conntrack/parameters/hashsize"
NOTHING = ConntrackOptions(max_per_core=0, tcp_established_timeout=0, tcp_close_wait_timeout=0)


def test_the_defaults_match_kube_proxy() -> None:
    assert plan_sysctls(ProxyConfig(), 2) == [
        Sysctl(f"{CONNTRACK}max", 131072, raises_only=True),
        Sysctl(HASH_SIZE, 32768, raises_only=True),
        Sysctl(f"{CONNTRACK}tcp_timeout_established", 86400),
        Sysctl(f"{CONNTRACK}tcp_timeout_close_wait", 3600),
    ]
    assert plan_sysctls(ProxyConfig(), 64)[0].value == 64 * 32768


def test_no_sysctl_is_written_without_a_setting() -> None:
    assert plan_sysctls(ProxyConfig(conntrack=NOTHING), 8) == []


def test_every_configured_sysctl_is_written() -> None:
    options = replace(NOTHING, tcp_be_liberal=True, udp_timeout=30, udp_stream_timeout=120)
    assert plan_sysctls(ProxyConfig(conntrack=options, localhost_node_ports=True), 1) == [
        Sysctl(f"{CONNTRACK}tcp_be_liberal", 1),
        Sysctl(f"{CONNTRACK}udp_timeout", 30),
        Sysctl(f"{CONNTRACK}udp_timeout_stream", 120),
        Sysctl("net/ipv4/conf/all/route_localnet", 1),
    ]


def test_missing_ipv6_sysctls_are_skipped(tmp_path: Path) -> None:
    assert kernel_families(tmp_path) == (4,)
    (tmp_path / "net/ipv6").mkdir(parents=True)
    assert kernel_families(tmp_path) == (4, 6)


@pytest.mark.parametrize(("level", "is_logged"), [(logging.WARNING, True), (logging.DEBUG, False)])
def test_a_refused_sysctl_is_logged_at_the_level_of_the_caller(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, level: int, is_logged: bool
) -> None:
    with caplog.at_level(logging.INFO):
        assert apply_sysctls([Sysctl("missing", 5)], tmp_path, refused=level) == 0

    assert ("missing stays as it is: No such file or directory\n" in caplog.text) is is_logged


def test_only_different_values_are_written(tmp_path: Path) -> None:
    for name, value in (("same", 5), ("lower", 4), ("higher", 6), ("max", 6), ("odd", 0)):
        (tmp_path / name).write_text(f"{value}\n")
    (tmp_path / "odd").write_text("1 2 3\n")
    wanted = [Sysctl(name, 5) for name in ("same", "lower", "higher", "missing", "odd")]

    assert apply_sysctls([*wanted, Sysctl("max", 5, raises_only=True)], tmp_path) == 2
    found = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert found == {"same": "5\n", "lower": "5\n", "higher": "5\n", "max": "6\n", "odd": "1 2 3\n"}
