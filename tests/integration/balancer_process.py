"""`bridgehead apiserver` and `bridgehead balancer` as processes, for tests with kubectl.

The controller has the rights that the chart gives, and no others.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import urllib.error
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.chart import RIGHTS, objects

from .api_world import DEADLINE, free_ports
from .apiserver_process import ServerProcess, write_files

METALLB = "/apis/metallb.io/v1beta1/namespaces/metallb-system"
EIPS = "/apis/network.kubesphere.io/v1alpha2/eips"


class BalancerProcess:
    """An API server and a controller. Owners call `close`."""

    def __init__(self, directory: Path) -> None:
        self.server = ServerProcess(directory)
        write_files(directory)
        self.server.start()
        self.server.write_kubeconfig()
        self._write_controllers_kubeconfig()
        self._process: subprocess.Popen[bytes] | None = None
        (self.secure_port,) = free_ports(1)

    def _write_controllers_kubeconfig(self) -> None:
        """Write a copy of the kubeconfig whose user is the controller's service account."""
        found = objects("definitions", "controller", "speaker", kinds=RIGHTS)
        self.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": found}))
        (token,) = self.kubectl("-n", "kube-system", "create", "token", "bridgehead-controller", "--duration=24h")
        lines = (self.server.directory / "kubeconfig").read_text().splitlines()
        kept = [line for line in lines if not line.startswith("users:")]
        assert len(kept) == len(lines) - 1
        user = f"users: [{{name: u, user: {{token: {token}}}}}]"
        (self.server.directory / "controller").write_text("\n".join([*kept, user, ""]))

    def start(self, *options: str) -> None:
        """Start the controller and wait until it has judged the configuration."""
        self.start_process(*options)
        self.eventually(lambda: self.state().get("result"), "the controller judges the configuration")

    def start_process(self, *options: str) -> None:
        directory = self.server.directory
        with (directory / "balancer.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-c",
                    "from bridgehead.cli import main; main()",
                    "balancer",
                    f"--kubeconfig={directory / 'controller'}",
                    "--metrics=",
                    f"--secure-metrics=127.0.0.1:{self.secure_port}",
                    *options,
                ],
                stderr=log,
            )

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Stop the controller by a signal; return its exit code."""
        assert self._process is not None
        self._process.send_signal(number)
        code = self._process.wait(DEADLINE)
        self._process = None
        return code

    def run(self, *arguments: str) -> list[str]:
        """Run `bridgehead balancer` with these arguments and an administrator's kubeconfig; return its output."""
        command = [sys.executable, "-c", "from bridgehead.cli import main; main()", "balancer", *arguments]
        kubeconfig = f"--kubeconfig={self.server.directory / 'kubeconfig'}"
        result = subprocess.run([*command, kubeconfig], capture_output=True, text=True, timeout=DEADLINE)
        assert result.returncode == 0, result.stderr
        return result.stdout.splitlines()

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self.server.close()

    # --- The API -------------------------------------------------------------------------------------------

    def get(self, path: str) -> dict[str, Any]:
        """Return an object or a list; empty if it does not exist."""
        try:
            found: dict[str, Any] = json.loads(self.server.read(path, token="admin-token"))
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise
            return {}
        return found

    def service(self, name: str) -> dict[str, Any]:
        return self.get(f"/api/v1/namespaces/default/services/{name}")

    def addresses(self, name: str) -> list[str]:
        status = self.service(name).get("status", {})
        return [ingress["ip"] for ingress in status.get("loadBalancer", {}).get("ingress", ())]

    def state(self) -> dict[str, Any]:
        status: dict[str, Any] = self.get(f"{METALLB}/configurationstates/controller").get("status", {})
        return status

    def events(self, name: str) -> set[tuple[str, str]]:
        """Return reason and message of the Events about objects of this name."""
        events = [
            event
            for ns in ("default", "metallb-system")
            for event in self.get(f"/api/v1/namespaces/{ns}/events")["items"]
        ]
        return {(event["reason"], event["message"]) for event in events if event["involvedObject"]["name"] == name}

    def eventually(self, condition: Callable[[], Any], what: str) -> Any:
        """Return the first true result of the condition."""
        deadline = time.monotonic() + DEADLINE
        while not (found := condition()):
            if time.monotonic() > deadline:
                raise AssertionError(f"never: {what}\n{(self.server.directory / 'balancer.log').read_text()}")
            time.sleep(0.02)
        return found

    # --- kubectl -------------------------------------------------------------------------------------------

    def kubectl(self, *arguments: str, stdin: str = "") -> list[str]:
        """Return the lines of the output; there is no error."""
        result = self.server.kubectl(*arguments, stdin=stdin)
        assert result.returncode == 0, result.stderr
        return result.stdout.splitlines()

    def apply(self, *manifests: str) -> list[str]:
        return self.kubectl("apply", "-f", "-", stdin="\n---\n".join(manifests))

    def try_apply(self, *manifests: str) -> bool:
        """Apply manifests; return whether all were accepted."""
        return self.server.kubectl("apply", "-f", "-", stdin="\n---\n".join(manifests)).returncode == 0

    def delete(self, *manifests: str) -> None:
        self.kubectl("delete", "--wait=false", "-f", "-", stdin="\n---\n".join(manifests))
