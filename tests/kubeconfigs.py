"""Kubeconfigs of tests: one cluster, one user."""

from __future__ import annotations

import json
from pathlib import Path

NOBODY = "http://127.0.0.1:1"  # where no API server is


def write_kubeconfig(path: Path, server: str = NOBODY, **user: str) -> Path:
    """Make it there; `user` are the fields of who asks, such as `token`."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(json.dumps(document))
    return path
