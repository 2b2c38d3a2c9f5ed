"""Stand-in for `e2e_test/base.py` of the Kubernetes clients, which their source distributions lack.

The original finds a cluster of minikube; this one takes the kubeconfig of KUBECONFIG, a lab's.
"""

from __future__ import annotations

import base64
import os
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml


def get_e2e_configuration() -> Any:
    """Return the client's own Configuration for the current context."""
    # kubernetes.aio.e2e_test.base -> kubernetes.aio
    configuration = import_module(f"{__name__.removesuffix('.e2e_test.base')}.client").Configuration()
    document = yaml.safe_load(Path(os.environ["KUBECONFIG"]).read_text("utf-8"))
    context = _named(document["contexts"], document["current-context"])["context"]
    cluster = _named(document["clusters"], context["cluster"])["cluster"]
    user = _named(document["users"], context["user"])["user"]
    configuration.host = cluster["server"]
    configuration.ssl_ca_cert = _file(cluster, "certificate-authority")
    configuration.cert_file = _file(user, "client-certificate")
    configuration.key_file = _file(user, "client-key")
    return configuration


def _named(entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(entry for entry in entries if entry["name"] == name)


def _file(entry: dict[str, str], key: str) -> str:
    if key in entry:
        return entry[key]
    with tempfile.NamedTemporaryFile(delete=False) as file:
        file.write(base64.b64decode(entry[f"{key}-data"]))
    return file.name
