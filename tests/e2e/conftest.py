"""A lab for the whole run, and the tools a user has: kubectl, and curl from the lab, a node and a pod."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
import re
import subprocess
import sys
import time
import urllib.parse
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from bridgehead.client import ApiClient, load_kubeconfig
from bridgehead.insight.waiting import wait_programmed
from bridgehead.objects.meta import ObjectKey
from tests.forks import run_bridgehead

from .api import Api, Objects
from .helper_process import HelperProcess

BRIDGEHEAD = Path(sys.executable).with_name("bridgehead")
_DIRECTORY = Path(__file__).parent
EXAMPLES = _DIRECTORY.parents[1] / "examples"
# Time limit, in seconds, for all that a test waits for. Only a slow and busy machine comes near it.
PATIENCE = 120


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
    _idle_helpers: dict[str | None, list[HelperProcess]] = field(default_factory=dict, init=False, repr=False)
    _api: Api | None = field(default=None, init=False, repr=False)

    @property
    def api(self) -> Api:
        """The API server of the running lab."""
        if self._api is None:
            self._api = Api(self.state_dir / "kubeconfig", PATIENCE)
        return self._api

    @property
    def env(self) -> dict[str, str]:
        return {**os.environ, "KUBECONFIG": str(self.state_dir / "kubeconfig")}

    def argv(self, verb: str, *args: object) -> list[object]:
        return [BRIDGEHEAD, verb, "--name", self.name, "--state-dir", self.state_dir, *args]

    def argv_inside(self, *argv: object, node: str | None = None) -> list[object]:
        return self.argv("exec", *(["--node", node] if node else []), "--", *argv)

    def command(self, verb: str, *args: object) -> subprocess.CompletedProcess[str]:
        if verb in ("up", "down"):  # helper processes and connections are of one run of the lab
            self.disconnect()
        return run(*self.argv(verb, *args))

    def start(self, *options: object) -> None:
        """Do what `bridgehead up --detach` does, without the cost of loading all modules of a lab."""
        self.disconnect()
        result = run_bridgehead(*self.argv("up", "--detach", *options)[1:], timeout=2 * PATIENCE)
        assert result.returncode == 0, result.stderr + _logs(self)

    def stop(self, *options: object) -> None:
        """Do what `bridgehead down` does, without the cost of loading its modules. The lab may have ended."""
        self.disconnect()
        run_bridgehead(*self.argv("down", *options)[1:], timeout=2 * PATIENCE)

    def kubectl(self, *args: object, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        return run("kubectl", *args, stdin=stdin, env=self.env)

    def inside(self, *argv: object, node: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command in the lab or on a node, in a helper process there that stays as long as the lab runs."""
        command = [str(argument) for argument in argv]
        shell = self.argv_inside(sys.executable, "-I", "-S", _DIRECTORY / "lab_shell.py", node=node)
        idle = self._idle_helpers.setdefault(node, [])
        helper = idle.pop() if idle else HelperProcess(list(map(str, shell)))
        try:
            answer = helper.ask(command)
        except BaseException:
            helper.close()
            raise
        idle.append(helper)
        return subprocess.CompletedProcess(command, **answer)

    def wait_programmed(self, namespace: str, service: str) -> None:
        """Do what `bridgehead wait` does, without the cost of starting it."""

        async def wait() -> None:
            async with ApiClient(load_kubeconfig(self.state_dir / "kubeconfig"), "tests") as client:
                await wait_programmed(client, ObjectKey(namespace, service), PATIENCE, lambda _missing: None)

        asyncio.run(wait())

    def disconnect(self) -> None:
        """Close what leads to the running lab."""
        if self._api is not None:
            self._api.close()
            self._api = None
        while self._idle_helpers:
            for helper in self._idle_helpers.popitem()[1]:
                helper.close()


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

    def get(self, resource: str, name: str) -> Any:
        """The object of the core group with this name. `resource` is a plural, as in paths of the API."""
        found = self.lab.api.get(f"{self.path(resource)}/{name}")
        assert found, f"there is no {name} among {resource} of {self.name}"
        return found

    def apply(self, manifest: str) -> None:
        """Do what `kubectl apply --server-side` does, without the cost of a kubectl."""
        self.lab.api.apply(self.name, manifest)

    def refused(self, manifest: str) -> str:
        """Return kubectl's error for a manifest that the API refuses."""
        result = self.try_kubectl("create", "-f", "-", stdin=manifest)
        assert result.returncode != 0, result.stdout
        return result.stderr

    def rolled_out(self, *workloads: str) -> None:
        """Wait for what `kubectl rollout status` waits for. A workload: "deployment/NAME" or "daemonset/NAME"."""
        for workload in workloads:
            kind, _, name = workload.partition("/")
            path = f"{self.path(f'{kind}s', 'apis/apps/v1')}?fieldSelector=metadata.name%3D{name}"
            is_done = functools.partial(_is_rolled_out, name)
            self.lab.api.wait(path, is_done, f"{workload} is not rolled out")

    def ready(self, *pods: str) -> None:
        """Wait until these pods are ready; all, if none is named."""

        def are_ready(found: Objects) -> bool:
            return bool(found) and all(name in found and _is_ready(found[name]) for name in pods or found)

        self.lab.api.wait(self.path("pods"), are_ready, f"{pods or 'the pods'} are not ready")

    def succeeded(self, *pods: str) -> None:
        """Wait until these have ended well."""

        def have_ended(found: Objects) -> bool:
            return all(name in found and found[name]["status"]["phase"] == "Succeeded" for name in pods)

        self.lab.api.wait(self.path("pods"), have_ended, f"{pods} never succeeded")

    def gone(self, pod: str) -> None:
        """Wait until the pod is deleted."""
        self.lab.api.wait(self.path("pods"), lambda found: pod not in found, f"the pod {pod} is not deleted")

    def execute(self, pod: str, *argv: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command in the pod's only container, as `kubectl exec` does, without the cost of a kubectl."""
        return self.lab.api.execute(f"{self.path('pods')}/{pod}", argv, stdin)

    def create(self) -> None:
        """Make the namespace, and wait until pods can be made in it."""
        body = json.dumps({"metadata": {"name": self.name}})
        status, answer = self.lab.api.call("POST", "/api/v1/namespaces", body)
        assert status == 201, answer
        self.wait_account()

    def delete(self) -> None:
        """Delete the namespace, without waiting until it is gone."""
        self.lab.api.call("DELETE", f"/api/v1/namespaces/{self.name}")

    def wait_account(self) -> None:
        message = f"{self.name} never got its service account"
        self.lab.api.wait(self.path("serviceaccounts"), lambda found: "default" in found, message)

    def path(self, resource: str, version: str = "api/v1", selector: str = "") -> str:
        """Return the path of a collection in the API, with a label selector."""
        query = f"?{urllib.parse.urlencode({'labelSelector': selector})}" if selector else ""
        return f"/{version}/namespaces/{self.name}/{resource}{query}"

    def pods(self, selector: str) -> list[dict[str, Any]]:
        return self.lab.api.list(self.path("pods", selector=selector))

    def slices(self, service: str) -> list[dict[str, Any]]:
        """The EndpointSlices of a Service."""
        return self.lab.api.list(self._slices_path(service))

    def _slices_path(self, service: str) -> str:
        return self.path("endpointslices", "apis/discovery.k8s.io/v1", f"kubernetes.io/service-name={service}")

    def list_all(self, resource: str) -> list[dict[str, Any]]:
        """All objects of a resource of the core group."""
        return self.lab.api.list(self.path(resource))

    def cluster_ip(self, service: str) -> str:
        return self.get("services", service)["spec"]["clusterIP"]

    def wait_endpoints(self, service: str, count: int) -> list[str]:
        """The ready addresses of a Service, once there are `count` of them and every node's kernel has them."""
        message = f"{service} never had {count} ready endpoints"
        slices = self.lab.api.wait(
            self._slices_path(service), lambda found: len(_ready_addresses(found)) == count, message
        )
        self.programmed(service)
        return sorted(_ready_addresses(slices))

    def programmed(self, service: str) -> None:
        """Wait until every node's kernel has the Service as it is now."""
        self.lab.wait_programmed(self.name, service)

    def client_pod(self) -> str:
        """A pod with curl in it."""
        container = {"name": "client", "image": "busybox", "args": ["sleep", "3600"]}
        spec = {"restartPolicy": "Never", "containers": [container]}
        self.apply(json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "client"}, "spec": spec}))
        self.ready("client")
        return "client"


def _is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod["status"].get("conditions", ())
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _is_rolled_out(name: str, found: Objects) -> bool:
    if name not in found or found[name]["status"].get("observedGeneration", 0) < found[name]["metadata"]["generation"]:
        return False
    status = found[name]["status"]
    if "desiredNumberScheduled" in status:  # a DaemonSet's
        wanted = status["desiredNumberScheduled"]
        return status.get("updatedNumberScheduled", 0) >= wanted <= status.get("numberAvailable", 0)
    wanted, updated = found[name]["spec"]["replicas"], status.get("updatedReplicas", 0)
    return updated >= wanted and status.get("replicas", 0) <= updated <= status.get("availableReplicas", 0)


def _ready_addresses(slices: Objects) -> list[str]:
    return [
        address
        for item in slices.values()
        for endpoint in item.get("endpoints") or []
        if endpoint["conditions"].get("ready", True)
        for address in endpoint["addresses"]
    ]


@pytest.fixture(scope="package")  # not of the session: a worker's other tests need no lab beside them
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    lab = Lab("e2e", tmp_path_factory.mktemp("lab"))
    try:
        lab.start("--ephemeral")
        _schedule_speakers(lab, _NOWHERE)
        yield lab
    finally:
        lab.stop()


@pytest.fixture(scope="module")
def speakers(lab: Lab) -> Iterator[None]:
    """Announce load-balancer addresses on every node until the file's last test.

    Speakers send each other heartbeats, which is most of what an idle lab does; tests of other things do without.
    """
    _schedule_speakers(lab, {_NODE_LABEL: None})
    Namespace(lab, "kube-system").rolled_out("daemonset/bridgehead-speaker")
    yield
    _schedule_speakers(lab, _NOWHERE)


_NODE_LABEL = "tests.example.com/speaker"
_NOWHERE: dict[str, str | None] = {_NODE_LABEL: "no-node-has-this"}


def _schedule_speakers(lab: Lab, node_selector: dict[str, str | None]) -> None:
    """Merge labels into those that a node must have to get a speaker; None removes one."""
    path = "/apis/apps/v1/namespaces/kube-system/daemonsets/bridgehead-speaker"
    patch = json.dumps({"spec": {"template": {"spec": {"nodeSelector": node_selector}}}})
    status, answer = lab.api.call("PATCH", path, patch, "application/merge-patch+json")
    assert status == 200, answer


def _logs(lab: Lab) -> str:
    return "".join(
        f"\n--- {path.name}\n" + "\n".join(path.read_text(errors="replace").splitlines()[-15:])
        for path in sorted((lab.state_dir / "logs").glob("*.log"))
    )


@pytest.fixture(scope="module")
def changeable_lab(lab: Lab) -> Iterator[Lab]:
    """The lab, whose proxies have their own mode again after the file's last test."""
    from .proxy_modes import configure

    yield lab
    configure(lab, "nftables")


@pytest.fixture
def ns(lab: Lab, request: pytest.FixtureRequest) -> Iterator[Namespace]:
    ns = Namespace(lab, namespace_name(request.node.name))
    ns.create()
    yield ns
    ns.delete()


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
