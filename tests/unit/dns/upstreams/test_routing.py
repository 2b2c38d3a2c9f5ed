"""Upstreams: never an address at which this DNS server answers itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridgehead.dns.config import DnsConfig, Server
from bridgehead.dns.errors import ConfigInvalid
from bridgehead.dns.upstreams.routing import choose_upstreams


def test_an_address_served_on_the_node_is_never_an_upstream() -> None:
    config = DnsConfig(node_local=("169.254.20.10",), upstreams=(Server("169.254.20.10"),))
    with pytest.raises(ConfigInvalid, match=r"upstream 169\.254\.20\.10:53 is this server itself"):
        choose_upstreams(config)

    another = DnsConfig(node_local=("169.254.20.10",), upstreams=(Server("169.254.20.10", 54), Server("10.0.0.1")))
    assert choose_upstreams(another) == another.upstreams


def test_addresses_served_on_the_node_are_removed_from_resolv_conf(tmp_path: Path) -> None:
    file = tmp_path / "resolv.conf"
    file.write_text("nameserver 169.254.20.10\nnameserver 10.0.0.1\n")
    config = DnsConfig(node_local=("169.254.20.10",), resolv_conf=str(file))

    assert choose_upstreams(config) == (Server("10.0.0.1"),)
