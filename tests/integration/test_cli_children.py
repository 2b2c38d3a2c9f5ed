"""Child processes of commands, which may not go on with their parent's work."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.integration

STORE = """
import os, signal, sys
from pathlib import Path
from bridgehead.cli.store_access import do_in_child
from bridgehead.lab import content_access
from bridgehead.lab.errors import LabError
from bridgehead.lab.plan import LabFiles

def interrupt():
    os.kill(os.getpid(), signal.SIGINT)
    signal.pause()

def outlive():
    parent = os.getppid()
    os.kill(parent, signal.SIGKILL)
    while os.getppid() == parent:
        pass
    return "more than a pipe holds" * 10_000

def fail():
    raise ValueError("unforeseen")

works = {"fail": fail, "interrupt": interrupt, "outlive": outlive}
content_access.open_content = lambda files: None
try:
    do_in_child(LabFiles(Path("lab")), lambda store: works[sys.argv[1]]())
except LabError as error:
    print(error)
finally:
    print("the command goes on", flush=True)
"""


def run(script: str, *argv: str) -> tuple[int, str, str]:
    done = subprocess.run([sys.executable, "-c", script, *argv], capture_output=True, text=True, timeout=100)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("work", "result"),
    [
        ("fail", (0, "ValueError: unforeseen\nthe command goes on\n", "")),
        ("interrupt", (0, "interrupted\nthe command goes on\n", "")),
        ("outlive", (-9, "", "")),
    ],
)
def test_work_in_the_store_ends_in_the_child(work: str, result: tuple[int, str, str]) -> None:
    assert run(STORE, work) == result


RESTORE = """
import sys
from bridgehead.cli import lab_restoration, up

lab_restoration.restore_lab = lambda *_: "Restored the lab."
up._restore(None, None, None, getattr(sys, sys.argv[1]))
"""


@pytest.mark.parametrize(
    ("output", "result"), [("stdout", (0, "Restored the lab.\n", "")), ("stderr", (0, "", "Restored the lab.\n"))]
)
def test_the_line_about_a_restoration_goes_where_the_form_of_the_result_allows(
    output: str, result: tuple[int, str, str]
) -> None:
    assert run(RESTORE, output) == result


TRIAL = """
import os, signal, sys
from bridgehead.lab import preflight, namespace_trial

def end(*_):
    os._exit(3) if sys.argv[2] == "exit" else os.kill(os.getpid(), signal.Signals[sys.argv[2]])

namespace_trial._leave = end if sys.argv[1] == "outer" else lambda id_map: None
namespace_trial._mount = end
try:
    preflight.check_namespaces()
    print("it works")
except Exception as error:
    print(error, flush=True)
"""


@pytest.mark.parametrize("process", ["outer", "inner"])
@pytest.mark.parametrize(
    ("end", "reason"),
    [("SIGSYS", "by signal 31, as a filter of system calls"), ("SIGKILL", "by signal 9\n"), ("exit", "with code 3\n")],
)
def test_a_trial_that_is_killed_is_no_success(process: str, end: str, reason: str) -> None:
    code, output, _ = run(TRIAL, process, end)
    assert code == 0
    assert output.startswith(f"cannot try this kernel: the trial of its namespaces ended {reason}")
