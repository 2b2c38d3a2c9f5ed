"""Plugin for pytest: a cluster for tests, namespaces in it, and its network (see README.md and docs/testing.md).

pytest finds it by its entry point `bridgehead`; `-p bridgehead.testing` loads it where entry points are switched off.
"""

from __future__ import annotations

from typing import Any


def pytest_addhooks(pluginmanager: Any) -> None:
    """Register the plugin under the name of its entry point, which pytest then does not load again."""
    from . import plugin

    if not pluginmanager.has_plugin("bridgehead"):
        pluginmanager.register(plugin, "bridgehead")
