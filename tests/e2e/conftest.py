"""A lab for the whole run, and the tools a user has: kubectl, and curl from the lab, a node and a pod."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import os
import re
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.parse
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from .helper_process import HelperProcess

BRIDGEHEAD = Path(sys.executable).with_name("bridgehead")
_DIRECTORY = Path(__file__).parent
EXAMPLES = _DIRECTORY.parents[1] / "examples"
# How long something may take that a test waits for. Nothing needs so much; a slow and busy machine may. (seconds)
PATIENCE = 120
JSON = "application/json"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/e2e/" in item.nodeid:
            item.add_marker(pytest.mark.e2e)
            item.add_marker(pytest.mark.needs("kubectl", "curl", "nft", "ip"))
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
    pause = 0.05
    while True:
        value = what()
        if value:
            return value
        if time.monotonic() > deadline:
            pytest.fail(message or f"not so within {PATIENCE} s: {what}")
        time.sleep(pause)
        # Polls start programs, which take processor time from what they wait for.
        pause = min(1.5 * pause, 0.5)


@dataclass
class Lab:
    """A running lab and the ways to use it."""

    name: str
    state_dir: Path
    _idle_helpers: dict[tuple[str, ...], list[HelperProcess]] = field(default_factory=dict, init=False, repr=False)

    @property
    def env(self) -> dict[str, str]:
        return {**os.environ, "KUBECONFIG": str(self.state_dir / "kubeconfig")}

    def argv(self, verb: str, *args: object) -> list[object]:
        return [BRIDGEHEAD, verb, "--name", self.name, "--state-dir", self.state_dir, *args]

    def argv_inside(self, *argv: object, node: str | None = None) -> list[object]:
        return self.argv("exec", *(["--node", node] if node else []), "--", *argv)

    def command(self, verb: str, *args: object) -> subprocess.CompletedProcess[str]:
        if verb in ("up", "down"):  # helper processes are of one run of the lab
            self._close_helpers()
        return run(*self.argv(verb, *args))

    def kubectl(self, *args: object, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        return run("kubectl", *args, stdin=stdin, env=self.env)

    def inside(self, *argv: object, node: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command in the lab or on a node, without the cost of a `bridgehead exec` for each."""
        command = [str(argument) for argument in argv]
        shell = self.argv_inside(sys.executable, "-I", "-S", _DIRECTORY / "lab_shell.py", node=node)
        return subprocess.CompletedProcess(command, **self._ask(shell, command))

    def wait_programmed(self, namespace: str, service: str) -> None:
        """Do what `bridgehead wait` does, without the cost of starting it."""
        waiter = [sys.executable, "-m", "tests.e2e.programmed", self.state_dir / "kubeconfig"]
        error = self._ask(waiter, [namespace, service, PATIENCE])
        assert not error, error

    def _ask(self, argv: list[object], request: Any) -> Any:
        """Ask a helper process with this command line, which stays as long as the lab runs."""
        command = tuple(map(str, argv))
        idle = self._idle_helpers.setdefault(command, [])
        helper = idle.pop() if idle else HelperProcess(command)
        try:
            answer = helper.ask(request)
        except BaseException:
            helper.close()
            raise
        idle.append(helper)
        return answer

    def _close_helpers(self) -> None:
        while self._idle_helpers:
            for helper in self._idle_helpers.popitem()[1]:
                helper.close()


class Api:
    """Bytes to the API server and back, with the administrator's certificate."""

    def __init__(self, lab: Lab) -> None:
        config = yaml.safe_load((lab.state_dir / "kubeconfig").read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self._context = ssl.create_default_context(cadata=authority)
        with tempfile.NamedTemporaryFile() as pem:
            pem.write(base64.b64decode(user["client-certificate-data"]) + base64.b64decode(user["client-key-data"]))
            pem.flush()
            self._context.load_cert_chain(pem.name)
        self._host = cluster["server"].removeprefix("https://")

    def connect(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(self._host, context=self._context, timeout=PATIENCE)

    def call(self, method: str, path: str, body: Any = None, content_type: str = JSON, chunked: bool = False):
        connection = self.connect()
        headers = {"Content-Type": content_type} | ({"Transfer-Encoding": "chunked"} if chunked else {})
        try:
            connection.request(method, path, body=body, headers=headers, encode_chunked=chunked)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def get(self, path: str) -> Any:
        """The object at `path`, or None. Polls that use it start no kubectl."""
        status, answer = self.call("GET", path)
        assert status in (200, 404), answer
        return answer if status == 200 else None


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
        """Return kubectl's error for a manifest that the API refuses."""
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

    def create(self) -> None:
        """Make the namespace, and wait until pods can be made in it."""
        result = self.lab.kubectl("create", "namespace", self.name)
        assert result.returncode == 0, result.stderr
        self.wait_account()

    def wait_account(self) -> None:
        api, path = Api(self.lab), f"/api/v1/namespaces/{self.name}/serviceaccounts/default"
        eventually(lambda: api.get(path), message=f"{self.name} never got its service account")

    def pods(self, selector: str) -> list[dict[str, Any]]:
        return self._list("/api/v1", "pods", selector)

    def _list(self, version: str, resource: str, selector: str) -> list[dict[str, Any]]:
        query = urllib.parse.urlencode({"labelSelector": selector})
        found = Api(self.lab).get(f"{version}/namespaces/{self.name}/{resource}?{query}")
        return found["items"]

    def cluster_ip(self, service: str) -> str:
        return self.get("service", service)["spec"]["clusterIP"]

    def wait_endpoints(self, service: str, count: int) -> list[str]:
        """The ready addresses of a Service, once there are `count` of them and every node's kernel has them."""
        addresses: list[str] = []

        def are_ready() -> bool:
            slices = self._list("/apis/discovery.k8s.io/v1", "endpointslices", f"kubernetes.io/service-name={service}")
            addresses[:] = [
                address
                for item in slices
                for endpoint in item.get("endpoints") or []
                if endpoint["conditions"].get("ready", True)
                for address in endpoint["addresses"]
            ]
            return len(addresses) == count

        eventually(are_ready, message=f"{service} never had {count} ready endpoints")
        self.programmed(service)
        return sorted(addresses)

    def programmed(self, service: str) -> None:
        """Wait until every node's kernel has the Service as it is now."""
        self.lab.wait_programmed(self.name, service)

    def client_pod(self) -> str:
        """A pod with curl in it."""
        self.kubectl("run", "client", "--image=busybox", "--restart=Never", "--", "sleep", "3600")
        self.ready("client")
        return "client"


@pytest.fixture(scope="package")  # not of the session: a worker's other tests need no lab beside them
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
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
    ns = Namespace(lab, namespace_name(request.node.name))
    ns.create()
    yield ns
    lab.kubectl("delete", "namespace", ns.name, "--wait=false")


def namespace_name(test: str) -> str:
    """A test's namespace, at most 30 characters, because a pod's FQDN may have 64.

    A name that has to be cut ends in a hash of the whole, because tests with other parameters begin alike.
    """
    name = re.sub(r"[^a-z0-9]+", "-", test.removeprefix("test_").lower()).strip("-")
    if len(name) > 30:
        name = f"{name[:23].strip('-')}-{zlib.crc32(test.encode()) & 0xFFFFFF:06x}"
    return name


def curl(lab: Lab, url: str, *options: object, node: str | None = None):
    """Run curl in the lab or on a node. Exit code 7 is a refused connection, 28 a timeout."""
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
