"""`bridgehead up --wait --json`: what a program in another language starts, and reads."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from bridgehead.lab import state_directories
from bridgehead.lab.plan import LabFiles

from .conftest import PATIENCE, Lab, running

SMALL = ("--nodes=1", "--no-balancer", "--offline")


@pytest.fixture
def own_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    lab = Lab("programs", tmp_path_factory.mktemp("programs") / "lab")
    yield lab
    lab.stop("--delete")


def answer(text: str) -> dict[str, Any]:
    """The object of a standard output that has nothing else."""
    assert text.endswith("}\n"), text
    assert text.count("\n") == 1, text
    found: dict[str, Any] = json.loads(text)
    return found


def test_one_answer_for_all_that_wait_for_the_same_lab(own_lab: Lab) -> None:
    """Of three programs one starts the lab; the others wait for it, and a fourth finds it running."""
    lab = own_lab
    up = lab.argv("up", "--wait", "--json", *SMALL)
    with ExitStack() as stack:
        starting = [stack.enter_context(running(*up, stdout=subprocess.PIPE, stderr=subprocess.PIPE)) for _ in range(3)]
        ended = [process.communicate(timeout=PATIENCE) for process in starting]
        assert [process.returncode for process in starting] == [0, 0, 0], ended
    found = [answer(output) for output, _ in ended]
    found.append(answer(lab.command("up", "--wait", "-o", "json").stdout))
    assert all(each.pop("seconds") > 0 for each in found)
    assert all(each == found[0] for each in found)
    lab.disconnect()
    kubectl = ["kubectl", "--kubeconfig", found[0]["kubeconfig"], "--context", found[0]["context"]]
    nodes = subprocess.run([*kubectl, "get", "nodes", "-o", "json"], capture_output=True, text=True, check=True)
    (node,) = json.loads(nodes.stdout)["items"]
    (planned,) = found[0]["nodes"]
    assert node["metadata"]["name"] == planned["name"]
    assert node["spec"]["podCIDRs"] == planned["podRanges"]
    assert {each["address"] for each in node["status"]["addresses"]} >= set(planned["addresses"])

    other = lab.command("up", "--wait", "--json", "--nodes=2")
    assert other.returncode == 1
    error = answer(other.stdout)["error"]
    assert (error["code"], error["exitCode"]) == ("AlreadyRunning", 1)
    assert other.stderr == f"bridgehead: {error['message']}\n"
    assert answer(lab.command("up", "--detach", "--json").stdout)["error"]["code"] == "AlreadyRunning"
    text = lab.command("up", "--wait")
    assert (text.returncode, f'The lab "{lab.name}" is ready' in text.stdout) == (0, True), text


def test_a_lab_lives_as_long_as_the_child_that_is_its_up(own_lab: Lab) -> None:
    with running(*own_lab.argv("up", "--json", *SMALL), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as up:
        assert up.stdout is not None
        assert answer(up.stdout.readline())["name"] == own_lab.name
        up.send_signal(signal.SIGTERM)
        assert (up.wait(PATIENCE), up.stdout.read()) == (0, "")
    assert not state_directories.is_running(LabFiles(own_lab.state_dir))


def test_errors_of_a_start_are_answers_too(own_lab: Lab) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        failed = own_lab.command("up", "--wait", "--json", f"--port={taken.getsockname()[1]}")
    error = answer(failed.stdout)["error"]
    assert (failed.returncode, error["exitCode"], error["code"]) == (1, 1, "Failed")
    assert "choose another with --port" in error["message"]

    script = f"mount -t tmpfs none /usr/sbin && exec {' '.join(map(str, own_lab.argv('up', '--wait', '--json')))}"
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script]
    failed = subprocess.run(command, capture_output=True, text=True)
    error = answer(failed.stdout)["error"]
    assert (failed.returncode, error["exitCode"], error["code"]) == (3, 3, "Unsupported")
    assert "the command `nft` is missing" in error["message"]


def test_an_interrupted_start_answers_and_leaves_no_lab(own_lab: Lab) -> None:
    with running(*own_lab.argv("up", "--json"), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as up:
        assert up.stderr is not None
        assert "waiting for" in up.stderr.readline()
        up.send_signal(signal.SIGINT)
        output, _ = up.communicate(timeout=PATIENCE)
    assert up.returncode == 130
    assert answer(output)["error"] == {"code": "Interrupted", "message": "interrupted", "exitCode": 130}
    assert not state_directories.is_running(LabFiles(own_lab.state_dir))
