"""The plugin for pytest, in processes of pytest that run examples/testing/ and small tests as users have them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bridgehead.lab import state_directories
from bridgehead.lab.plan import LabFiles

from .conftest import EXAMPLES, Lab, eventually, run, running

_EXAMPLES = EXAMPLES / "testing"
# The entry point needs an installation, and plugins of this suite are not the users'.
_PYTEST = (
    sys.executable,
    "-m",
    "pytest",
    "-p",
    "bridgehead.testing",
    "-p",
    "no:asyncio",
    "-p",
    "no:cacheprovider",
    "-rA",
)

FAILING = '''
import os, pathlib, re
import pytest

POD = """
apiVersion: v1
kind: Pod
metadata: {name: talker}
spec:
  nodeName: node1  # the other node's kubelet, which serves logs, is killed
  restartPolicy: Never
  containers: [{name: main, image: busybox, args: [sh, -c, "echo the last line; exit 3"]}]
"""

def test_of_a_pod_that_ends(apply, kubectl):
    apply(POD)
    kubectl("wait", "pod/talker", "--for=jsonpath={.status.phase}=Failed", "--timeout=90s")
    assert "the pod" == "succeeded"

@pytest.mark.parametrize("number", range(4))
def test_of_the_lab(lab, number):
    pathlib.Path(__file__).with_name(f"lab-{number}").write_text(f"{lab.name} {os.environ['PYTEST_XDIST_WORKER']}")

def test_of_a_kill(lab, kill):
    kill("kubelet-node2")
    assert re.search(r"^kubelet-node2 +[0-9]+ +1 ", lab.bridgehead("status"), re.MULTILINE)
    with pytest.raises(Exception, match="no part 'kubelet-node9'; did you mean"):
        kill("kubelet-node9")
'''

BLOCKED = """
import pathlib, signal

def test_that_does_not_end(lab):
    pathlib.Path(__file__).with_name("begun").write_text(lab.name)
    signal.pause()
"""


@pytest.fixture
def environment(tmp_path) -> dict[str, str]:
    """Variables for a process of pytest, whose labs have their state below the test's directory."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "BRIDGEHEAD_", "COV_"))}
    return {**kept, "XDG_STATE_HOME": str(tmp_path / "state")}


def write_tests(directory: Path, source: str) -> Path:
    directory.mkdir()
    (directory / "test_users.py").write_text(source)
    (directory / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    return directory


def labs_below(tmp_path: Path) -> list[Path]:
    """The state directories of labs, also of those that have ended and left something."""
    return sorted((tmp_path / "state").glob("bridgehead/pytest-*"))


def test_the_examples_share_one_lab_that_ends_with_the_session(tmp_path, environment):
    directory = write_tests(tmp_path / "tests", FAILING)
    ini = ("-c", _EXAMPLES / "pytest.ini", "--rootdir", tmp_path, "--basetemp", tmp_path / "base")
    # Clients of the examples leave sockets open.
    strict = ("-W", "error", "-W", "ignore::pytest.PytestUnraisableExceptionWarning")
    done = run(*_PYTEST, "-n2", *ini, *strict, _EXAMPLES, directory, env=environment)
    assert labs_below(tmp_path) == []
    failed = re.findall(r"^(?:FAILED|ERROR|SKIPPED) \S*::(\S+)", done.stdout, re.MULTILINE)
    assert failed == ["test_of_a_pod_that_ends"], done.stdout + done.stderr
    assert re.search(r"^=+ 1 failed, 13 passed", done.stdout, re.MULTILINE), done.stdout
    names = [path.read_text().split() for path in directory.glob("lab-*")]
    assert len({name for name, _ in names}) == 1
    section = done.stdout.partition("Bridgehead: namespace of-a-pod-that-ends-")[2]
    assert "Normal Started pod/talker" in section
    assert "talker: Failed" in section
    assert "--- Log of talker, main" in section
    assert "the last line\n" in section, section


def test_a_killed_pytest_leaves_no_lab(tmp_path, environment):
    directory = write_tests(tmp_path / "tests", BLOCKED)
    argv = (*_PYTEST, "--bridgehead-nodes=1", directory)
    with running(*argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        eventually(lambda: (directory / "begun").exists() or process.poll() is not None)
        assert process.poll() is None, process.communicate()[0]
        (state,) = labs_below(tmp_path)
        assert state.name == eventually((directory / "begun").read_text)
        assert state_directories.is_running(LabFiles(state))
        process.send_signal(signal.SIGKILL)
        process.wait()
    eventually(lambda: labs_below(tmp_path) == [], message="the lab is still there")


def test_another_cluster(lab: Lab, tmp_path, environment):
    """The cluster is the suite's lab, which the plugin does not know as one."""
    tests = ("test_clients.py", "test_chart.py", "test_web.py::test_the_name_leads_to_the_cluster_ip")
    kubeconfig = lab.state_dir / "kubeconfig"
    done = run(
        *(*_PYTEST, "--basetemp", tmp_path / "base", *(_EXAMPLES / name for name in tests)),
        env={**environment, "BRIDGEHEAD_KUBECONFIG": str(kubeconfig)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^=+ 3 passed, 1 skipped", done.stdout, re.MULTILINE), done.stdout
    assert f"needs a lab of Bridgehead; this run uses the cluster of {kubeconfig}" in done.stdout
    assert labs_below(tmp_path) == []
