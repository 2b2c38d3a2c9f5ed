"""The class `KindCluster`, as far as suites use it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path


class KindCluster:
    """A cluster that exists. The arguments of kind's own, which name and make one, have no effect."""

    def __init__(self, name: str, kubeconfig: Path | None = None, image: str | None = None) -> None:
        self.name = name
        self.kubeconfig_path = Path(kubeconfig or os.environ["KUBECONFIG"])
        self.kubectl_path = Path(shutil.which("kubectl") or "kubectl")

    def create(self) -> None:
        """Do nothing: the cluster runs."""

    def delete(self) -> None:
        """Do nothing: the owner of the cluster deletes it."""

    def kubectl(self, *argv: str) -> str:
        """Return the output of kubectl. Raises `CalledProcessError`."""
        command = (str(self.kubectl_path), *argv)
        environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig_path)}
        return subprocess.check_output(command, env=environment, encoding="utf-8")
