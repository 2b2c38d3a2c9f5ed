"""From nothing to a test suite: install, `up`, the first and the hundredth test, beside published figures of others.

The wheel is that of `make release`, in dist/. uv installs it from its cache, which a first installation fills: what is
measured is the work of this machine, not its network. Each test applies the Deployment and the Service of
docs/testing.md in a namespace of its own, waits until the nodes' kernels have them, and connects by the Service's name.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from tests.integration.apiserver_process import write_files

from benchmarks.kube_apiserver import KubeApiServer, why_missing
from benchmarks.lab import seconds
from benchmarks.progress import log
from benchmarks.tables import Table, not_measured

RUNS = 3
TESTS = 100
WHEELS = Path(__file__).resolve().parent.parent / "dist"

# Each test writes the time at which it ended.
SUITE = """\
import time
from pathlib import Path

import pytest

WEB = '''
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: nginx}]}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}]}
'''


@pytest.mark.parametrize("number", range(%d))
def test_the_service_answers(number, apply, wait_programmed, connect):
    apply(WEB)
    wait_programmed("web")
    assert connect.http("http://web/").status == 200
    with Path("ended").open("a") as file:
        print(time.time(), file=file)
"""

# kubernetes/minikube, site/content/en/docs/benchmarks/timeToK8s/v1.36.0.md, of May 2025: seconds on that project's own
# machine (Linux, amd64, which its page does not describe further), of one node. `App Running` begins after the command.
PUBLISHED_SOURCE = (
    "https://github.com/kubernetes/minikube/blob/master/site/content/en/docs/benchmarks/timeToK8s/v1.36.0.md"
)
PUBLISHED = (
    ("kind 0.29.0", "14.2 s", "33.0 s"),
    ("k3d 5.8.3", "12.6 s", "19.9 s"),
    ("minikube 1.36.0", "21.1 s", "50.8 s"),
)


def run() -> list[Table]:
    wheels = list(WHEELS.glob("*.whl"))
    if len(wheels) != 1:
        raise RuntimeError("there is no wheel in dist/ (make release)")
    with tempfile.TemporaryDirectory() as directory:
        here = Path(directory)
        uv = install_uv(here)
        environment = here / "environment"
        install(uv, environment, wheels[0])  # fills uv's cache
        installations = [install(uv, environment, wheels[0]) for _ in range(RUNS)]
        size = megabytes(environment)
        bridgehead = environment / "bin/bridgehead"
        starts = [start(bridgehead, here / f"state-{number}") for number in range(RUNS)]
        sessions = [session(environment, here / f"session-{number}") for number in range(RUNS)]
    firsts, lasts, ends = (list(values) for values in zip(*sessions, strict=True))
    each = [(last - first) / (TESTS - 1) for first, last in zip(firsts, lasts, strict=True)]
    own = Table(
        "From the wheel to the hundredth test",
        ("what", "measured"),
        (
            (f"`uv pip install` of the wheel with pytest, from uv's cache, {size:.0f} MB", seconds(installations)),
            ("`bridgehead up` to ready, 3 nodes, the first start of each state", seconds(starts)),
            ("`pytest` to the end of the first test, with the lab's start (2 nodes)", seconds(firsts)),
            (f"`pytest` to the end of test {TESTS}", seconds(lasts)),
            ("each further test", seconds(each)),
            ("end of the last test to the end of pytest, with the lab's end", seconds(ends)),
        ),
        "Each test has a namespace of its own, a Deployment and a Service in it, and one request by its name. "
        f"Processes that ran or waited for one of {os.cpu_count()} processors, on average: {os.getloadavg()[2]:.0f}.",
    )
    return [own, compared(starts, firsts)]


def compared(starts: list[float], firsts: list[float]) -> Table:
    """The figures that others have for the same, and of envtest's two programs what this machine measures."""
    mine = f"{statistics.median(starts):.1f} s", f"{statistics.median(firsts):.1f} s"
    rows = [("Bridgehead, measured here", *mine)]
    rows += [(f"{name}, published", command, total) for name, command, total in PUBLISHED]
    rows.append(
        ("kube-apiserver 1.20.2 and etcd, as envtest starts them, measured here", envtest(), "no nodes: no pod runs")
    )
    return Table(
        "Beside kind, k3d, minikube and envtest",
        ("tool", "command to its end", "until an app runs and its name resolves"),
        rows,
        f"Published figures are of minikube's project ({PUBLISHED_SOURCE}), which names neither its machine nor what "
        "it had downloaded before. The app is nginx: with Bridgehead it is a stand-in, not downloaded, and the "
        "second figure contains pytest's own start.",
    )


def envtest() -> str:
    """The seconds until kube-apiserver with an etcd of its own is ready."""
    if missing := why_missing():
        return not_measured(missing)
    found = []
    for _ in range(RUNS):
        with tempfile.TemporaryDirectory() as directory:
            write_files(Path(directory))
            with closing(KubeApiServer(Path(directory))) as server:
                found.append(timed(server.start))
    return seconds(found)


def install_uv(here: Path) -> Path:
    """Install uv into an environment of its own; return its path."""
    log("installing uv")
    call(sys.executable, "-m", "venv", here / "uv")
    call(here / "uv/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "uv")
    return here / "uv/bin/uv"


def install(uv: Path, environment: Path, wheel: Path) -> float:
    """Make an environment with the wheel and pytest; return the seconds."""
    log("installing the wheel")

    def make() -> None:
        call(uv, "venv", "--clear", "--python", sys.executable, environment)
        call(uv, "pip", "install", "--python", environment / "bin/python", f"bridgehead[test] @ {wheel.as_uri()}")

    return timed(make)


def start(bridgehead: Path, state: Path) -> float:
    """Start a lab, and stop it; return the seconds of its start."""
    log("starting a lab")
    lab = ("--name", "bench-start", "--state-dir", state)
    try:
        return timed(lambda: call(bridgehead, "up", *lab, "--detach", "--offline", "--no-balancer"))
    finally:
        call(bridgehead, "down", *lab, "--delete")


def session(environment: Path, here: Path) -> tuple[float, float, float]:
    """Run the suite; return the seconds to the end of the first test, of the last, and from there to pytest's end."""
    log(f"running {TESTS} tests")
    here.mkdir()
    (here / "test_web.py").write_text(SUITE % TESTS)
    began = time.time()
    python = environment / "bin/python"
    call(
        python,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "test_web.py",
        cwd=here,
        XDG_STATE_HOME=str(here / "state"),
    )
    ended = time.time()
    times = [float(line) for line in (here / "ended").read_text().split()]
    return times[0] - began, times[-1] - began, ended - times[-1]


def megabytes(directory: Path) -> float:
    paths = {path.stat().st_ino: path.stat().st_blocks for path in directory.rglob("*") if path.is_file()}
    return sum(paths.values()) * 512 / 1e6


def timed(work: Callable[[], None]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began


def call(*argv: str | Path, cwd: Path | None = None, **environment: str) -> None:
    """Run a program. Raises RuntimeError with its output."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "BRIDGEHEAD_"))}
    done = subprocess.run(
        argv, cwd=cwd, env={**clean, **environment}, capture_output=True, text=True, timeout=900, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{argv[0]}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
