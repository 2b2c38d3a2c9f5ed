"""Requirements of each world on the machine. Tests marked `guest` run in their own kernel (`tests/guest.py`)."""

from __future__ import annotations

import pytest

from tests import guest

# Modules here -> the programs that they call.
WORLDS = {
    "tests.integration.bird_router": ("ip", "bird", "birdc", "tc"),
    "tests.integration.frr_router": ("/usr/lib/frr/bgpd",),
    "tests.integration.namespaced": ("ip", "mount"),
    "tests.integration.proxy_world": ("ip", "nft", "sysctl"),
    "tests.integration.runtime_world": ("unshare", "ip", "nsenter"),
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.Function) and "tests/integration/" in item.nodeid:
            used = {getattr(value, "__module__", "") for value in vars(item.module).values()}
            for world in WORLDS.keys() & used:
                item.add_marker(pytest.mark.needs(*WORLDS[world]))


def pytest_configure(config: pytest.Config) -> None:
    if guest.is_guest():
        config.pluginmanager.register(guest.GuestPlugin(config), "bridgehead-guest")
    else:
        config.pluginmanager.register(guest.HostPlugin(), "bridgehead-guest")
