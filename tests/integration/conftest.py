"""Tests marked `guest` run in a kernel of their own: see `tests/guest.py`."""

from __future__ import annotations

import pytest

from tests import guest


def pytest_configure(config: pytest.Config) -> None:
    if guest.is_guest():
        config.pluginmanager.register(guest.GuestPlugin(config), "bridgehead-guest")
    else:
        config.pluginmanager.register(guest.HostPlugin(), "bridgehead-guest")
