"""The templates of `ci/`: their scripts run as a runner would run them, without the steps that install packages."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridgehead.yaml_loader import load_all

from .conftest import BRIDGEHEAD, EXAMPLES, PATIENCE

CI = EXAMPLES.parent / "ci"
OPTIONS = "--nodes 1 --no-balancer --offline"


@pytest.fixture
def env(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of a job, with labs of its own."""
    names = {"BRIDGEHEAD_NAME", "KUBECONFIG", "XDG_STATE_HOME"}
    env = {key: value for key, value in os.environ.items() if key not in names}
    env |= {"XDG_STATE_HOME": str(tmp_path / "state"), "PATH": f"{BRIDGEHEAD.parent}:{env['PATH']}"}
    yield env
    for name in ("bridgehead", "ci"):
        subprocess.run([BRIDGEHEAD, "down", "--delete", "--name", name], env=env, capture_output=True)


def shell(script: str, env: dict[str, str], directory: Path, code: int = 0) -> str:
    command = ["bash", "-e", "-o", "pipefail", "-c", script]  # as runners of GitHub start it
    done = subprocess.run(command, env=env, cwd=directory, capture_output=True, text=True, timeout=2 * PATIENCE)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def is_allowed() -> bool:
    """Whether the step that changes sysctls has nothing to change here."""
    file = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
    return not file.exists() or file.read_text().strip() == "0"


def test_the_action_of_github_starts_a_cluster_and_passes_its_kubeconfig(env: dict[str, str], tmp_path: Path) -> None:
    [action] = load_all((CI / "github" / "action.yml").read_text())
    steps = {step["name"]: step["run"] for step in action["runs"]["steps"] if "run" in step}
    assert list(steps) == ["Install", "Allow user namespaces", "Start"]
    if not is_allowed():
        pytest.skip("the second step would change this machine's sysctls")
    assert shell(steps["Allow user namespaces"], env, tmp_path) == ""
    files = {name: tmp_path / name.lower() for name in ("GITHUB_ENV", "GITHUB_OUTPUT")}
    job = env | {name: str(path) for name, path in files.items()} | {"RUNNER_TEMP": str(tmp_path)}
    shell(steps["Start"], job | {"BRIDGEHEAD_NAME": "ci", "OPTIONS": OPTIONS}, tmp_path)
    later = dict(line.split("=", 1) for line in files["GITHUB_ENV"].read_text().splitlines())
    outputs = dict(line.split("=", 1) for line in files["GITHUB_OUTPUT"].read_text().splitlines())
    declared = action["outputs"].items()
    assert {name: each["value"] for name, each in declared} == {
        name: f"${{{{ steps.start.outputs.{name} }}}}" for name in outputs
    }
    assert outputs["kubeconfig"] == later["KUBECONFIG"]
    assert "node1" in shell("kubectl get nodes", env | later, tmp_path)
    shell("bridgehead down --delete", env | later, tmp_path)


def test_a_step_that_cannot_start_shows_what_the_machine_lacks(env: dict[str, str], tmp_path: Path) -> None:
    [action] = load_all((CI / "github" / "action.yml").read_text())
    [start] = [step["run"] for step in action["runs"]["steps"] if step.get("id") == "start"]
    job = env | {"RUNNER_TEMP": str(tmp_path), "BRIDGEHEAD_NAME": "Not A Name", "OPTIONS": OPTIONS}
    assert "namespaces and nftables" in shell(start, job, tmp_path, code=1)
    assert json.loads((tmp_path / "bridgehead.json").read_text())["error"]["code"] == "Failed"


def test_a_step_of_a_machine_that_cannot_run_a_cluster_ends_with_3(env: dict[str, str], tmp_path: Path) -> None:
    """The limit is that of a user namespace of the test's own."""
    [action] = load_all((CI / "github" / "action.yml").read_text())
    [start] = [step["run"] for step in action["runs"]["steps"] if step.get("id") == "start"]
    (tmp_path / "start.sh").write_text(f"echo 0 > /proc/sys/user/max_user_namespaces\n{start}")
    job = env | {"RUNNER_TEMP": str(tmp_path), "BRIDGEHEAD_NAME": "ci", "OPTIONS": OPTIONS}
    output = shell("unshare --user --map-root-user bash -e -o pipefail start.sh", job, tmp_path, code=3)
    assert "user.max_user_namespaces" in output
    assert json.loads((tmp_path / "bridgehead.json").read_text())["error"]["code"] == "Unsupported"


def test_the_template_of_gitlab_runs(env: dict[str, str], tmp_path: Path) -> None:
    [template] = load_all((CI / "gitlab" / "bridgehead.yml").read_text())
    job = template[".bridgehead"]
    before = [line for line in job["before_script"] if not re.match(r"apt-get|python -m pip", line)]
    assert len(before) == len(job["before_script"]) - 2
    script = [*before, 'test -f "$KUBECONFIG"', "kubectl get nodes"]
    output = shell("\n".join(script), env | {"BRIDGEHEAD_OPTIONS": OPTIONS}, tmp_path)
    assert "A lab can run on this machine" in output
    assert "node1" in output
    shell("\n".join(job["after_script"]), env, tmp_path)
    written = [path for path in job["artifacts"]["paths"] if (tmp_path / path).stat().st_size]
    assert written == job["artifacts"]["paths"]


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_the_rules_for_make_run(env: dict[str, str], tmp_path: Path) -> None:
    make = f"make -f {CI}/Makefile.example BRIDGEHEAD_OPTIONS='{OPTIONS}'"
    shell(f"{make} cluster && {make} cluster", env, tmp_path)
    assert json.loads((tmp_path / ".bridgehead.json").read_text())["name"] == "bridgehead"
    assert "node/node1 condition met" in shell(f"{make} test", env, tmp_path)
    shell(f"{make} load IMAGE=no-such:1", env, tmp_path, code=2)
    shell(f"{make} cluster-down", env, tmp_path)
    assert not (tmp_path / "state" / "bridgehead" / "bridgehead").exists()


def test_the_dev_container_has_the_documented_options() -> None:
    container = json.loads((CI / "devcontainer" / "devcontainer.json").read_text())
    page = (EXAMPLES.parent / "docs" / "where-it-runs.md").read_text()
    [line] = re.findall(r"^    docker run (.*) \.\.\.$", page, re.MULTILINE)
    assert line.split() == [word for option in container["securityOpt"] for word in ("--security-opt", option)]
