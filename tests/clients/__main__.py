"""Run the suites of client libraries against a lab: python -m tests.clients [NAME...]

Each project's source distribution is downloaded by pip, compared with its hash, and unpacked below .clients/, with an
environment of its own. The tests run inside the lab, where no route leads out. The exit code is 1 if a test failed that
`projects` does not list as known.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.clients.projects import PROJECTS, Project
from tests.image_files import Entry, archive_of, entries_of_program, image_of, layer_of

REPOSITORY = Path(__file__).resolve().parents[2]
STAND_INS = Path(__file__).with_name("stand_ins")
CONSTRAINTS = Path(__file__).with_name("constraints.txt")
ENVIRONMENT = REPOSITORY / ".venv/bin"
BUILD = REPOSITORY / ".clients"


@dataclass
class Outcome:
    """The tests of a project that passed, were skipped, failed, and failed for a known reason, with the reasons."""

    passed: int = 0
    skipped: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    known: dict[str, str] = field(default_factory=dict)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.clients", description="Run the suites of client libraries.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(one.name for one in PROJECTS)}")
    parser.add_argument("-k", default="", metavar="EXPRESSION", help="as pytest's -k")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the lab is deleted, as after Ctrl-C
    chosen = [one for one in PROJECTS if not options.names or one.name in options.names]
    for project in chosen:
        prepare(project)
    outcomes: dict[str, Outcome] = {}
    with lab() as state:
        for project in chosen:
            if project.tests:
                load_images(project, state)
                outcomes[project.name] = run(project, state, options.k)
    print_table(chosen, outcomes)
    return int(any(one.failed or not one.passed for one in outcomes.values()))


# --- sources


def prepare(project: Project) -> None:
    """Download, check and unpack the source, and make the environment, unless they are there."""
    source = BUILD / project.directory
    python = python_of(project)
    if (done := python.parents[1] / ".complete").exists() and source.exists():
        return
    BUILD.mkdir(exist_ok=True)
    archive = BUILD / project.archive
    if not archive.exists():
        download = ("download", "--quiet", "--no-deps", "--no-binary", project.name, "--dest", BUILD)
        pip(Path(sys.executable), *download, f"{project.name}=={project.version}")
    if (found := hashlib.sha256(archive.read_bytes()).hexdigest()) != project.sha256:
        raise SystemExit(f"{archive} has the hash {found}, not {project.sha256}; delete it and try again")
    if not project.tests:
        return
    shutil.rmtree(source, ignore_errors=True)
    subprocess.run(("tar", "-xzf", archive, "-C", BUILD), check=True)
    for path, stand_in in project.stand_ins.items():
        target = source / path
        target.parent.mkdir(parents=True, exist_ok=True)
        (target.parent / "__init__.py").touch()
        shutil.copyfile(STAND_INS / stand_in, target)
    shutil.rmtree(python.parents[1], ignore_errors=True)
    print(f"preparing {project.directory} ...", flush=True)
    subprocess.run((sys.executable, "-m", "venv", python.parents[1]), check=True)
    pip(python, "install", "--quiet", "--constraint", CONSTRAINTS, source, *project.requirements)
    done.touch()


def python_of(project: Project) -> Path:
    return BUILD / "environments" / project.directory / "bin/python"


def pip(python: Path, *argv: str | Path) -> None:
    subprocess.run((python, "-m", "pip", "--disable-pip-version-check", *argv), check=True)


# --- running


@contextmanager
def lab() -> Iterator[Path]:
    """Start a lab; return its state directory. The lab is deleted at the end."""
    with tempfile.TemporaryDirectory(prefix="clients-") as directory:
        state = Path(directory, "state")
        subprocess.run((ENVIRONMENT / "bridgehead", "up", *of(state), "--detach", "--offline"), check=True)
        try:
            yield state
        finally:
            subprocess.run((ENVIRONMENT / "bridgehead", "down", *of(state), "--delete"), check=True)


def load_images(project: Project, state: Path) -> None:
    """Load images of programs of this machine, in the place of those that no stand-in plays."""
    for name, programs in project.images.items():
        entries: dict[str, Entry] = {}
        for program in programs:
            entries |= dict(entries_of_program(Path(program), program))
        archive = state.parent / "image.tar"
        archive.write_bytes(archive_of(name, image_of(layer_of(entries.items(), ""))))
        subprocess.run((ENVIRONMENT / "bridgehead", "image", "load", *of(state), archive), check=True)


def of(state: Path) -> tuple[str, ...]:
    return ("--name", "clients", "--state-dir", str(state))


def run(project: Project, state: Path, expression: str) -> Outcome:
    """Run a project's tests inside the lab; their log and report are beside its source."""
    source = BUILD / project.directory
    report = BUILD / f"{project.directory}.xml"
    report.unlink(missing_ok=True)
    log = BUILD / f"{project.directory}.log"
    print(f"running the tests of {project.directory}; the log is {log}", flush=True)
    variables = {
        # kubectl is that of 1.36, which is installed beside the tools of this project's own tests.
        "PATH": f"{python_of(project).parent}:{ENVIRONMENT}:{os.environ['PATH']}",
        "PYTHONPATH": ":".join((str(source), *(str(STAND_INS / path) for path in project.path))),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    argv: list[str | Path] = [ENVIRONMENT / "bridgehead", "exec", *of(state), "--", "env", "-C", source]
    argv += [f"{name}={value}" for name, value in variables.items()]
    argv += [python_of(project), "-m", "pytest", "-ra", "-p", "no:cacheprovider", *project.tests]
    argv += [f"--junitxml={report}", *(("-k", expression) if expression else ())]
    with log.open("wb") as file:
        subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, check=False)
    if not report.exists():
        raise SystemExit(f"pytest did not run:\n{log.read_text(errors='replace')[-2000:]}")
    return outcome_of(project, ElementTree.parse(report).getroot())


def outcome_of(project: Project, report: ElementTree.Element) -> Outcome:
    """Read a report of pytest in JUnit's form."""
    found = Outcome()
    for case in report.iter("testcase"):
        name = f"{case.get('classname')}.{case.get('name')}"
        broken = case.find("failure") if case.find("failure") is not None else case.find("error")
        if broken is None:
            found.skipped += case.find("skipped") is not None
            found.passed += case.find("skipped") is None
        elif why := project.why_known(name):
            found.known[name] = why
        else:
            found.failed[name] = broken.get("message", "")
    return found


def print_table(projects: list[Project], outcomes: dict[str, Outcome]) -> None:
    print("\n| client | passed | failed | known | skipped | |\n| --- | --- | --- | --- | --- | --- |")
    for project in projects:
        title = f"{project.name} {project.version}"
        if (one := outcomes.get(project.name)) is None:
            print(f"| {title} | | | | | {project.remark} |")
            continue
        reasons = "; ".join(sorted(set(one.known.values())))
        print(f"| {title} | {one.passed} | {len(one.failed)} | {len(one.known)} | {one.skipped} | {reasons} |")
    print()
    for name, one in outcomes.items():
        for test, message in one.failed.items():
            print(f"FAILED {name}: {test}: {' '.join(message.split())[:300]}")


if __name__ == "__main__":
    sys.exit(main())
