"""Small texts with rules of their own: keys of ConfigMaps, names of variables, paths inside volumes.

Each `check_x` returns the reasons of refusal in the API's own words, as in `objects.names`.
"""

from __future__ import annotations

import re

_KEY = re.compile(r"[-._a-zA-Z0-9]+")


def check_env_name(name: str) -> list[str]:
    """Any printable ASCII but `=`, as relaxed in 1.34."""
    if name and all(" " <= character <= "~" and character != "=" for character in name):
        return []
    return ["a valid environment variable name must consist only of printable ASCII characters other than '='"]


def check_config_key(key: str) -> list[str]:
    """A key of a ConfigMap or a Secret, which may become the name of a file."""
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
    """A path inside a volume: it may not lead out of it."""
    reasons = []
    if path.startswith("/"):
        reasons.append("must be a relative path")
    if ".." in path.split("/"):
        reasons.append("must not contain '..'")
    return reasons
