"""Names of tests' namespaces.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import re
from typing import Final

_LONGEST: Final = 30  # of the part that names the test: a pod's FQDN has at most 64 characters


def namespace_name(test: str, suffix: str) -> str:
    """Return a name for a test's namespace; `suffix` makes it unique."""
    name = re.sub(r"[^a-z0-9]+", "-", test.removeprefix("test_").lower())[:_LONGEST].strip("-")
    return f"{name or 'test'}-{suffix}"
