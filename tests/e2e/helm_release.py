"""Releases of charts in a lab, by Helm."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import yaml

from tests.chart import require_helm

from .conftest import Lab, run

WAIT = ("--wait", "--timeout", "100s")


class Release:
    """A release of one of the charts."""

    def __init__(self, lab: Lab, namespace: str, name: str, chart: Path, home: Path) -> None:
        self.lab, self.namespace, self.name, self.chart = lab, namespace, name, chart
        # Helm's caches are of this test alone.
        self._env = {
            **lab.env,
            "HELM_CACHE_HOME": str(home),
            "HELM_CONFIG_HOME": str(home),
            "HELM_DATA_HOME": str(home),
        }

    def try_helm(self, verb: str, *options: str) -> subprocess.CompletedProcess[str]:
        return run(require_helm(), verb, *options, "--namespace", self.namespace, env=self._env)

    def helm(self, verb: str, *options: str) -> str:
        result = self.try_helm(verb, *options)
        assert result.returncode == 0, f"helm {verb}: {result.stdout}{result.stderr}"
        return result.stdout

    def install(self, *options: str) -> str:
        return self.helm("install", self.name, str(self.chart), *(options or WAIT))

    def upgrade(self, *values: str) -> str:
        return self.helm("upgrade", self.name, str(self.chart), *settings(*values), *WAIT)

    def rollback(self, revision: int) -> None:
        self.helm("rollback", self.name, str(revision), *WAIT)

    def manifest(self) -> str:
        return self.helm("get", "manifest", self.name)

    def history(self) -> list[tuple[int, str]]:
        found = json.loads(self.helm("history", self.name, "--output", "json"))
        return [(entry["revision"], entry["status"]) for entry in found]

    def uninstall(self) -> None:
        """Uninstall, and check that no object of the release is left, except for those that it keeps."""
        manifest = self.manifest()
        self.helm("uninstall", self.name, *WAIT)
        documents = [document for document in yaml.safe_load_all(manifest) if document]
        objects = [obj for document in documents for obj in document.get("items", [document])]
        gone = [obj for obj in objects if not is_kept(obj)]
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": gone})
        left = self.lab.kubectl("-n", self.namespace, "get", "--ignore-not-found", "-o", "name", "-f", "-", stdin=text)
        assert (left.stdout, left.returncode) == ("", 0), left.stderr

    def get(self, resource: str, name: str, path: str) -> str:
        """Return a field of an object, "" if it does not exist."""
        result = self.lab.kubectl(
            "-n", self.namespace, "get", resource, name, "--ignore-not-found", "-o", f"jsonpath={{{path}}}"
        )
        assert result.returncode == 0, result.stderr
        return result.stdout


def settings(*values: str) -> list[str]:
    """Return options of Helm that set values, `NAME=VALUE` each."""
    return [word for value in values for word in ("--set", value)]


def is_kept(obj: dict[str, Any]) -> bool:
    """Whether an object stays, or comes back: the lab's balancer makes MetalLB's definitions anew."""
    meta = obj["metadata"]
    keeps = (meta.get("annotations") or {}).get("helm.sh/resource-policy") == "keep"
    return keeps or (obj["kind"] == "CustomResourceDefinition" and meta["name"].endswith(".metallb.io"))
