"""Validation of keys of ConfigMaps, names of environment variables and paths in volumes.

Each `check_x` returns the reasons of a refusal, as texts of the Kubernetes API.
Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import re

_KEY = re.compile(r"[-._a-zA-Z0-9]+")


def check_env_name(name: str) -> list[str]:
    """Check the name of an environment variable: printable ASCII without `=`, as relaxed in Kubernetes 1.34."""
    if name and all(" " <= character <= "~" and character != "=" for character in name):
        return []
    return ["a valid environment variable name must consist only of printable ASCII characters other than '='"]


def check_config_key(key: str) -> list[str]:
    """Check a key of a ConfigMap or Secret, which may become a file name."""
    reasons = []
    if len(key) > 253:
        reasons.append("must be no more than 253 bytes")
    if not _KEY.fullmatch(key):
        reasons.append(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or "
            "'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
        )
    if key == ".":
        reasons.append("must not be '.'")
    elif key.startswith(".."):
        reasons.append("must not be '..'" if key == ".." else "must not start with '..'")
    return reasons


def check_local_path(path: str) -> list[str]:
    """Check a path in a volume: it must not leave the volume."""
    reasons = []
    if path.startswith("/"):
        reasons.append("must be a relative path")
    if ".." in path.split("/"):
        reasons.append("must not contain '..'")
    return reasons
