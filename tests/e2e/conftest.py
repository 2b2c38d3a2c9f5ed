"""A lab for the whole run, and the tools a user has: kubectl, curl from the three places of the walkthroughs."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

BRIDGEHEAD = Path(sys.executable).with_name("bridgehead")
EXAMPLES = Path(__file__).parents[2] / "examples"
# How long something may take that a test waits for. Nothing needs so much; a slow and busy machine may. (seconds)
PATIENCE = 120


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/e2e/" in item.nodeid:
            item.add_marker(pytest.mark.e2e)
            item.add_marker(pytest.mark.timeout(600))


def run(*argv: object, stdin: str | None = None, env: dict[str, str] | None = None):
    return subprocess.run(
        [str(word) for word in argv],
        input=stdin if stdin is not None else "",
        env=env,
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE,
    )


@contextlib.contextmanager
def running(*argv: object, **streams: Any) -> Iterator[subprocess.Popen[str]]:
    """A program that does not outlive the block."""
    with subprocess.Popen([str(word) for word in argv], text=True, **streams) as process:
        try:
            yield process
        finally:
            process.kill()


def eventually(what: Callable[[], Any], *, message: str = "") -> Any:
    """The first true value of `what`."""
    deadline = time.monotonic() + PATIENCE
    while True:
        value = what()
        if value:
            return value
        if time.monotonic() > deadline:
            pytest.fail(message or f"not so within {PATIENCE} s: {what}")
        time.sleep(0.05)


@dataclass
class Lab:
    """A running lab and the ways to use it."""

    name: str
    state_dir: Path

    @property
    def env(self) -> dict[str, str]:
        return {**os.environ, "KUBECONFIG": str(self.state_dir / "kubeconfig")}

    def argv(self, verb: str, *args: object) -> list[object]:
        return [BRIDGEHEAD, verb, "--name", self.name, "--state-dir", self.state_dir, *args]

    def argv_inside(self, *argv: object, node: str | None = None) -> list[object]:
        return self.argv("exec", *(["--node", node] if node else []), "--", *argv)

    def command(self, verb: str, *args: object) -> subprocess.CompletedProcess[str]:
        return run(*self.argv(verb, *args))

    def kubectl(self, *args: object, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        return run("kubectl", *args, stdin=stdin, env=self.env)

    def inside(self, *argv: object, node: str | None = None) -> subprocess.CompletedProcess[str]:
        return run(*self.argv_inside(*argv, node=node))


@dataclass
class Namespace:
    """kubectl in one namespace, which one test has for itself."""

    lab: Lab
    name: str

    def try_kubectl(self, *args: object, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        return self.lab.kubectl("-n", self.name, *args, stdin=stdin)

    def kubectl(self, *args: object, stdin: str | None = None) -> str:
        result = self.try_kubectl(*args, stdin=stdin)
        assert result.returncode == 0, f"kubectl {args}: {result.stderr}"
        return result.stdout

    def get(self, *args: object) -> Any:
        return json.loads(self.kubectl("get", *args, "-o", "json"))

    def apply(self, manifest: str) -> str:
        return self.kubectl("apply", "-f", "-", stdin=manifest)

    def refused(self, manifest: str) -> str:
        """What kubectl says when the API refuses `manifest`."""
        result = self.try_kubectl("create", "-f", "-", stdin=manifest)
        assert result.returncode != 0, result.stdout
        return result.stderr

    def rolled_out(self, *workloads: str) -> None:
        for workload in workloads:
            self.kubectl("rollout", "status", workload, f"--timeout={PATIENCE}s")

    def ready(self, *pods: str) -> None:
        """Wait until these pods are ready; all, if none is named."""
        which = [f"pod/{pod}" for pod in pods] or ["pod", "--all"]
        self.kubectl("wait", "--for=condition=Ready", *which, f"--timeout={PATIENCE}s")

    def succeeded(self, *pods: str) -> None:
        """Wait until these have ended well. (kubectl waits for a phase only since 1.23.)"""

        def done() -> set[str]:
            return {pod["metadata"]["name"] for pod in self.pods("") if pod["status"]["phase"] == "Succeeded"}

        eventually(lambda: done() >= set(pods), message=f"{pods} never succeeded")

    def pods(self, selector: str) -> list[dict[str, Any]]:
        return self.get("pods", "-l", selector)["items"]

    def cluster_ip(self, service: str) -> str:
        return self.get("service", service)["spec"]["clusterIP"]

    def wait_endpoints(self, service: str, count: int) -> list[str]:
        """The ready addresses of a Service, once there are `count` of them and every node's kernel has them."""
        addresses: list[str] = []

        def are_ready() -> bool:
            slices = self.get("endpointslices", "-l", f"kubernetes.io/service-name={service}")["items"]
            addresses[:] = [
                address
                for item in slices
                for endpoint in item["endpoints"] or []
                if endpoint["conditions"].get("ready", True)
                for address in endpoint["addresses"]
            ]
            return len(addresses) == count

        eventually(are_ready, message=f"{service} never had {count} ready endpoints")
        self.programmed(service)
        return sorted(addresses)

    def programmed(self, service: str) -> None:
        """Wait until every node's kernel has the Service as it is now."""
        result = self.lab.command("wait", "-n", self.name, f"service/{service}", f"--timeout={PATIENCE}s")
        assert result.returncode == 0, result.stderr

    def client_pod(self) -> str:
        """A pod with curl in it."""
        self.kubectl("run", "client", "--image=busybox", "--restart=Never", "--", "sleep", "3600")
        self.ready("client")
        return "client"


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    for tool in ("kubectl", "curl", "nft", "ip"):
        if shutil.which(tool, path=os.environ["PATH"] + ":/usr/sbin:/sbin") is None:
            pytest.fail(f"{tool} is missing: `make test` installs it or says how")
    lab = Lab("e2e", tmp_path_factory.mktemp("lab"))
    try:
        result = lab.command("up", "--detach", "--ephemeral")
        assert result.returncode == 0, result.stderr + _logs(lab)
        yield lab
    finally:
        lab.command("down")


def _logs(lab: Lab) -> str:
    return "".join(
        f"\n--- {path.name}\n" + "\n".join(path.read_text(errors="replace").splitlines()[-15:])
        for path in sorted((lab.state_dir / "logs").glob("*.log"))
    )


@pytest.fixture
def ns(lab: Lab, request: pytest.FixtureRequest) -> Iterator[Namespace]:
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_").lower()).strip("-")[:40].strip("-")
    result = lab.kubectl("create", "namespace", name)
    assert result.returncode == 0, result.stderr
    eventually(
        lambda: lab.kubectl("-n", name, "get", "serviceaccount", "default").returncode == 0,
        message="the namespace never got its service account",
    )
    yield Namespace(lab, name)
    lab.kubectl("delete", "namespace", name, "--wait=false")


def curl(lab: Lab, url: str, *options: object, node: str | None = None):
    """curl from the lab, or from a node. Its exit code 7 is a refused connection, 28 a timeout."""
    return lab.inside("curl", "-sS", "--max-time", "20", *options, url, node=node)


def curl_many(lab: Lab, url: str, count: int, node: str | None = None) -> list[str]:
    """`count` answers, each over a connection of its own."""
    script = f"for i in $(seq {count}); do curl -sS --max-time 20 {url}; echo; done"
    result = lab.inside("sh", "-c", script, node=node)
    assert result.returncode == 0, result.stderr
    return [line for line in result.stdout.splitlines() if line]


@contextlib.contextmanager
def no_request_lost(lab: Lab, url: str, *, at_least: int) -> Iterator[None]:
    """curl asks in the lab for as long as the block lasts, and more than `at_least` times; each time it is answered."""
    done = lab.state_dir / "stop-the-client"
    loop = (
        f"n=0; bad=0; while [ ! -e {done} ] || [ $n -le {at_least} ]; do n=$((n+1)); "
        f"curl -sS -m 20 {url} >/dev/null || bad=$((bad+1)); [ $n = 1 ] && echo begun; done; echo $n $bad"
    )
    done.unlink(missing_ok=True)
    client_argv = lab.argv_inside("sh", "-c", loop)
    with running(*client_argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as client:
        assert client.stdout is not None
        first = client.stdout.readline()
        assert first == "begun\n", first
        yield
        done.touch()
        *errors, counts = client.stdout.read().splitlines()
    requests, failed = map(int, counts.split())
    assert failed == 0, f"{failed} of {requests} requests failed: {errors}"
