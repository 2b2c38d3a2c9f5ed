"""Requirements of each world on the machine, and fixtures of files with an API server process of their own.

Tests marked `guest` run in their own kernel (`tests/guest.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests import guest

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from .apiserver_process import ServerProcess

# Modules here -> the programs that they call.
WORLDS = {
    "tests.integration.bird_router": ("ip", "bird", "birdc", "tc"),
    "tests.integration.frr_router": ("/usr/lib/frr/bgpd",),
    "tests.integration.namespaced": ("ip", "mount"),
    "tests.integration.proxy_world": ("ip", "nft", "sysctl"),
    "tests.integration.runtime_world": ("unshare", "ip", "nsenter"),
    "tests.integration.speaker_chaos": ("ip", "nft"),
    "tests.integration.speaker_world": ("ip", "nft"),
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


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """An API server for the tests of one file, with a kubeconfig."""
    from .apiserver_process import ServerProcess  # what it imports would cost the guest a second

    with ServerProcess(tmp_path_factory.mktemp("apiserver")).running() as server:
        yield server


@pytest.fixture
def api(server: ServerProcess) -> Iterator[ApiClient]:
    """Kubernetes' own Python client, as the admin."""
    from kubernetes.client import ApiClient, Configuration  # half a second

    configuration = Configuration(host=server.url)
    configuration.ssl_ca_cert = str(server.directory / "ca.crt")
    configuration.cert_file = str(server.directory / "admin.crt")
    configuration.key_file = str(server.directory / "admin.key")
    with ApiClient(configuration) as api:
        yield api
