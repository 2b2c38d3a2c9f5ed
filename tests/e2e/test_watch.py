"""`bridgehead watch`: build, load and restart at each change of a file."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from .conftest import PATIENCE, Lab, Namespace, curl, eventually, running
from .test_load import buildah as buildah  # the fixture
from .test_load import write_page

pytestmark = pytest.mark.needs("buildah", "busybox")

# A build as users write one, with a count of its runs.
BUILD = """#!/bin/sh -e
echo run >> {log}
container=$(buildah from scratch)
buildah copy --quiet $container {root} /
buildah config --cmd "httpd -f -p 80 -h /www" $container
buildah commit --quiet --rm $container shop/watched:1
"""


@pytest.fixture
def build(buildah: Path, tmp_path: Path) -> tuple[Path, Path]:
    """A script that builds, and the file with a line for each of its runs."""
    script, log = tmp_path / "build", tmp_path / "log"
    script.write_text(BUILD.format(root=buildah, log=log))
    script.chmod(0o755)
    return script, log


def test_a_change_replaces_the_pods(
    lab: Lab, ns: Namespace, buildah: Path, build: tuple[Path, Path], tmp_path: Path
) -> None:
    script, log = build
    write_page(buildah, "one")
    output = tmp_path / "output"
    watch = lab.argv("watch", "--image=shop/watched:1", f"--path={buildah}/www", "--", script)
    with output.open("w") as file, running(*watch, stdout=file, stderr=subprocess.STDOUT) as process:
        eventually(lambda: "waiting for a change" in output.read_text(), message=output.read_text())
        ns.kubectl("create", "deployment", "watched", "--image=shop/watched:1")
        ns.kubectl("expose", "deployment", "watched", "--port=80")
        ns.rolled_out("deployment/watched")
        ns.wait_endpoints("watched", 1)
        address = ns.cluster_ip("watched")
        assert curl(lab, address).stdout == "one\n"
        write_page(buildah, "two")
        eventually(lambda: curl(lab, address).stdout == "two\n")
        assert f"restarted deployment/watched of {ns.name}" in output.read_text()
        eventually(lambda: output.read_text().count("waiting for a change") == 2)
        assert log.read_text() == 2 * "run\n"

        # A build that fails keeps the pods, and the next change is tried again.
        good = script.read_text()
        script.write_text("#!/bin/sh\nexit 3\n")
        write_page(buildah, "three")
        eventually(lambda: f"{script} ended with 3" in output.read_text())
        script.write_text(good)
        write_page(buildah, "four")
        eventually(lambda: curl(lab, address).stdout == "four\n")
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0


def test_a_run_that_changes_what_is_watched_does_not_go_on_for_ever(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    output, command = tmp_path / "output", "echo run; date >> src/built; kubectl get nodes -o name"
    watch = lab.argv("watch", f"--path={tmp_path}/src", "--", "sh", "-c", command)
    with output.open("w") as file, running(*watch, stdout=file, stderr=subprocess.STDOUT, cwd=tmp_path) as process:
        eventually(lambda: "each run changes src/built, which --ignore leaves out" in output.read_text())
        eventually(lambda: "waiting for a change" in output.read_text())
        assert output.read_text().count("run\n") == 3
        assert "node/node1" in output.read_text(), "KUBECONFIG is the cluster's"
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0


def test_a_command_that_does_not_exist_is_one_line(lab: Lab, tmp_path: Path) -> None:
    with running(*lab.argv("watch", f"--path={tmp_path}", "--", "no-such-command"), stderr=subprocess.PIPE) as process:
        _, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, errors) == (1, "bridgehead: no-such-command: No such file or directory\n")
