"""Kubeconfigs of tests: one cluster, one user."""

from __future__ import annotations

import json
from pathlib import Path

NOBODY = "http://127.0.0.1:1"  # where no API server is


def write_kubeconfig(path: Path, server: str = NOBODY, **user: str) -> Path:
    """Write the file; nobody verifies the server's certificate. `user`: fields of who asks, such as `token`."""
    cluster: dict[str, object] = {"server": server}
    if server.startswith("https:"):
        cluster["insecure-skip-tls-verify"] = True
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(json.dumps(document))
    return path
