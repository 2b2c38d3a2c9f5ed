"""The plugin's import; e2e/test_testing_plugin.py has its fixtures."""

import subprocess
import sys

SCRIPT = """
import sys
import pytest
before = set(sys.modules)
import bridgehead.testing.plugin
print(*sorted(set(sys.modules) - before))
"""


def test_the_plugin_imports_nothing_until_a_fixture_is_used():
    """Every run of pytest in an environment that has the plugin imports it."""
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["bridgehead", "bridgehead.testing", "bridgehead.testing.plugin"]
