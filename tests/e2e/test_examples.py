"""The manifests of examples/, and the commands that their comments show."""

from __future__ import annotations

import os
import re

import pytest

from .conftest import BRIDGEHEAD, EXAMPLES, Lab, eventually, run

pytestmark = pytest.mark.usefixtures("speakers")

FILES = sorted(EXAMPLES.glob("*.yaml"))


@pytest.fixture(scope="module")
def applied(lab: Lab):
    """All examples, in the namespace that their comments mean."""
    done = lab.kubectl("apply", "-f", EXAMPLES)
    assert done.returncode == 0, done.stderr
    assert lab.kubectl("rollout", "status", "deployment/myweb", "--timeout=120s").returncode == 0
    yield
    lab.kubectl("delete", "-f", EXAMPLES, "--wait=false")


def commands_of(text: str) -> list[str]:
    """Commands in the comments: indented by three spaces, continued after a backslash."""
    lines = re.findall(r"^#   (.*)$", text, re.MULTILINE)
    return "\n".join(lines).replace("\\\n", " ").splitlines()


COMMANDS = [(file.name, command) for file in FILES for command in commands_of(file.read_text())]


def test_every_type_of_service_has_an_example():
    texts = "\n".join(file.read_text() for file in FILES)
    for field in ("type: NodePort", "type: LoadBalancer", "type: ExternalName", "clusterIP: None", "sessionAffinity:"):
        assert field in texts
    assert len(COMMANDS) >= 6


@pytest.mark.usefixtures("applied")
@pytest.mark.parametrize(("file", "command"), COMMANDS)
def test_the_commands_of_each_example_work(lab: Lab, file: str, command: str):
    options = f'--name "{lab.name}" --state-dir "{lab.state_dir}"'
    script = f'bridgehead() {{ verb=$1; shift; "{BRIDGEHEAD}" "$verb" {options} "$@"; }}\n'
    env = {**os.environ, **lab.env}

    def answered() -> bool:
        done = run("bash", "-c", script + command, env=env)
        return done.returncode == 0 and bool(done.stdout.strip())

    eventually(answered, message=f"{file}: {command}")
