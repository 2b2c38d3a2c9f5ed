"""The walk through the lessons of `bridgehead tour`: runs their commands, shows the output, asks the questions.

Commands run in a shell, as the user could type them, with the cluster's KUBECONFIG. Whatever happens, the namespace and
the lab that the tour made are removed: at the end, after an error, at Ctrl-C, and at SIGTERM and SIGHUP.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from bridgehead.insight.tour import phrases, values
from bridgehead.insight.tour.lesson import NAMESPACE, Language, Lesson, Need, Question, Step, Text
from bridgehead.insight.tour.lessons import BASE, LESSONS
from bridgehead.insight.tour.rendering import clip, wrap
from bridgehead.lab.plan import LabConfig, LabFiles

from .exit_codes import fail
from .lab_options import options_of, own_command

COMMAND_SECONDS = 200.0
WAIT_SECONDS = 60.0  # for a step that waits for its output
POLL_SECONDS = 0.3
LARGEST_WIDTH = 100  # columns; longer lines are hard to read

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_LABEL = "bridgehead.io/tour"  # of the namespace that a tour made
_NAMESPACE = f"""apiVersion: v1
kind: Namespace
metadata: {{name: {NAMESPACE}, labels: {{{_LABEL}: "true"}}}}
"""


_LAB_COMMAND = re.compile(r"\bbridgehead (?:exec|rules|flows|trace|doctor|balancer status)\b")


class Result(NamedTuple):
    """`output`: standard output and error."""

    code: int
    output: str


class Shell:
    """Runs commands with one cluster's KUBECONFIG."""

    def __init__(self) -> None:
        # kubectl translates some of its texts.
        self.environment = {**os.environ, "LC_ALL": "C.UTF-8"}
        program = Path(sys.argv[0]).absolute()
        if program.name == "bridgehead" and shutil.which("bridgehead") != str(program):
            self.environment["PATH"] = f"{program.parent}{os.pathsep}{os.environ.get('PATH', '')}"

    def run(self, command: str, *, stdin: str = "", seconds: float = COMMAND_SECONDS) -> Result:
        """Run a command. When `seconds` have passed, or an exception ends this, its processes are ended."""
        process = None
        try:
            with _deferring_signals():
                process = subprocess.Popen(
                    ["sh", "-c", command],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    env=self.environment,
                    text=True,
                    encoding="utf-8",
                    errors="replace",
                    start_new_session=True,  # Ctrl-C reaches the tour alone, which ends the command
                )
            output, _ = process.communicate(stdin, seconds)
        except BaseException as error:
            if process is not None:
                _end(process)
            if isinstance(error, subprocess.TimeoutExpired):
                return Result(124, f"no end after {seconds:g} s")
            raise
        return Result(process.returncode, output)

    def check(self, command: str, **more: Any) -> str:
        """Run a command that has to succeed, or exit with the last line of its output."""
        result = self.run(command, **more)
        if result.code:
            fail("tour", (clip(result.output) or [f"`{command}` failed"])[-1])
        return result.output


@contextlib.contextmanager
def _deferring_signals() -> Iterator[None]:
    """Handle signals that end the tour after the block: in it, a process that has just started is not known yet."""
    received: list[int] = []
    before = {number: signal.signal(number, lambda number, _: received.append(number)) for number in _ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if received:
        signal.raise_signal(received[0])


def _end(process: subprocess.Popen[str]) -> None:
    """End a command with all of its processes; they are killed if they do not end within five seconds."""
    with process:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(5)


class Screen:
    """Texts in one language on standard output, and answers from standard input."""

    def __init__(self, language: Language) -> None:
        self._language = language
        self._is_styled = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        self._columns = min(shutil.get_terminal_size().columns, LARGEST_WIDTH)

    def text(self, text: Text, style: str = "", **fields: object) -> None:
        self.lines(wrap(self.of(text, **fields), self._columns), style)

    def of(self, text: Text, **fields: object) -> str:
        found = text.of(self._language)
        return found.format(**fields) if fields else found

    def lines(self, lines: str, style: str = "") -> None:
        shown = f"\033[{style}m{lines}\033[0m" if style and self._is_styled else lines
        sys.stdout.write(f"{shown}\n")
        sys.stdout.flush()

    def ask(self, text: Text, **fields: object) -> str:
        """Return the answer; "q" when standard input ends."""
        sys.stdout.write(self.of(text, **fields))
        sys.stdout.flush()
        line = sys.stdin.readline()
        if not line:
            sys.stdout.write("\n")
            return "q"
        return line.strip().lower()


class Quit(Exception):
    """The user ends the tour."""


class NextLesson(Exception):
    """The user skips the rest of a lesson."""


BOLD, DIM, COMMAND, PROBLEM = "1", "2", "1;36", "33"


class Tour:
    """A run of the tour. `asks`: it waits for the user at each command and asks questions."""

    def __init__(self, language: Language, *, asks: bool, shell: Shell | None = None) -> None:
        self._screen = Screen(language)
        self._shell = shell or Shell()
        self._asks = asks
        self._own_lab = ""  # the name of the lab that the tour started
        self._is_lab = False
        self._has_balancer = False
        self._title = ""
        self._hint = ""  # the command by which a user's shell gets at the cluster
        self._lab_options = ""
        self._has_namespace = False
        self._scratch = contextlib.ExitStack()
        self._missing: dict[Need, None] = {}
        self._failed = 0
        self._right: list[bool] = []
        if shutil.which("kubectl") is None:
            fail("tour", "kubectl is not in PATH; https://kubernetes.io/docs/tasks/tools/ has it")

    # --- The cluster ---------------------------------------------------------------------------------------

    def start_lab(self, name: str) -> None:
        """Start a lab of the tour's own, after asking."""
        if self._asks and self._screen.ask(phrases.START_LAB, name=name) in ("n", "no", "q"):
            raise SystemExit(1)
        self._screen.text(phrases.STARTING_LAB, DIM, name=name)
        self._own_lab = name
        with self._removing_everything(only_after_errors=True):
            # Offline: stand-ins for the images start at once, and are the same everywhere.
            self._shell.check(f"bridgehead up --name {shlex.quote(name)} --detach --ephemeral --offline")

    def use_lab(self, files: LabFiles, config: LabConfig, state_dir: Path | None) -> None:
        """Use a lab that runs. `state_dir`: the option by which commands find it."""
        self._lab_options = options_of(None, state_dir)
        self._is_lab, self._has_balancer = True, config.balancer
        self._title = self._screen.of(phrases.LAB, name=config.name)
        self._hint = f'eval "$({own_command()} env{options_of(config.name, state_dir)})"'
        self._shell.environment["BRIDGEHEAD_NAME"] = config.name
        self._use_kubeconfig(files.kubeconfig, config.context)

    def use_cluster(self, kubeconfig: Path) -> None:
        """Use the current context of a file, after asking."""
        if self._asks and self._screen.ask(phrases.CONFIRM_CLUSTER, file=kubeconfig) not in ("y", "yes"):
            raise SystemExit(1)
        self._title = self._screen.of(phrases.OTHER_CLUSTER, file=kubeconfig)
        self._hint = f"export KUBECONFIG={shlex.quote(str(kubeconfig))}"
        self._use_kubeconfig(kubeconfig, None)
        addresses = "kubectl get services -A -o jsonpath='{.items[*].status.loadBalancer.ingress[*].ip}'"
        self._has_balancer = bool(self._shell.run(addresses).output.strip())

    def _use_kubeconfig(self, file: Path, context: str | None) -> None:
        """Let all commands use one context of a file, even if the file's current context changes meanwhile."""
        self._shell.environment["KUBECONFIG"] = str(file)
        current = self._shell.run("kubectl config current-context").output.strip()
        if context is not None and current == context:
            return
        directory = Path(self._scratch.enter_context(tempfile.TemporaryDirectory(prefix="bridgehead-tour-")))
        option = f" --context={shlex.quote(context)}" if context else ""
        content = self._shell.check(f"kubectl config view --raw --minify --flatten{option}")
        copy = directory / "kubeconfig"
        copy.touch(0o600)
        copy.write_text(content, "utf-8")
        self._shell.environment["KUBECONFIG"] = str(copy)

    # --- The walk ------------------------------------------------------------------------------------------

    def run(self, numbers: Sequence[int]) -> int:
        """Go through the lessons with these numbers, from 1. Returns the exit code."""
        with self._scratch, self._removing_everything():
            self._prepare()
            try:
                for number in numbers:
                    with contextlib.suppress(NextLesson):
                        self._go_through(number, LESSONS[number - 1])
            except Quit:
                pass
            else:
                self._screen.text(phrases.END, BOLD)
            self._sum_up()
        return 1 if self._failed and not self._asks else 0

    def _prepare(self) -> None:
        self._screen.text(phrases.WELCOME, cluster=self._title, environment=self._hint)
        address = self._shell.check("kubectl get service kubernetes -n default -o jsonpath='{.spec.clusterIP}'")
        if ":" in address:
            fail("tour", "the commands of the tour are for IPv4, and the cluster has IPv6 addresses")
        label = "jsonpath='{.metadata.labels.bridgehead\\.io/tour}'"
        found = self._shell.run(f"kubectl get namespace {NAMESPACE} -o {label}")
        if found.code == 0:
            if found.output.strip() != "true":
                fail("tour", f"the cluster has a namespace {NAMESPACE} already, which is not of a tour")
            self._delete_namespace()  # an earlier tour was killed
        self._has_namespace = True
        self._shell.check("kubectl create -f -", stdin=_NAMESPACE)
        self._screen.lines("")
        self._screen.text(phrases.PREPARING, DIM)
        for command in BASE:
            self._screen.lines(f"$ {command}", COMMAND)
            for line in clip(self._shell.check(command)):
                self._screen.lines(line)

    def _go_through(self, number: int, lesson: Lesson) -> None:
        self._screen.lines("")
        self._screen.text(phrases.LESSON, BOLD, number=number, count=len(LESSONS), title=self._screen.of(lesson.title))
        for step in lesson.steps:
            self._screen.lines("")
            missing = self._find_missing(step)
            if missing is not None:
                self._missing.setdefault(missing)
                self._screen.text(phrases.SKIPPED, PROBLEM, reason=self._screen.of(phrases.MISSING[missing]))
                continue
            self._do(step)
        if self._asks:
            self._put(lesson.question)

    def _do(self, step: Step) -> None:
        self._screen.text(step.text)
        command = values.fill_in(step.command, self._look_up)
        if self._lab_options:
            command = _LAB_COMMAND.sub(lambda match: f"{match[0]}{self._lab_options}", command)
        self._screen.lines(f"$ {command}", COMMAND)
        if self._asks:
            self._obey(self._screen.ask(phrases.RUN))
        result, is_as_expected = self._run(step, command)
        for line in clip(result.output):
            self._screen.lines(line)
        if not is_as_expected:
            self._failed += 1
            self._screen.text(phrases.UNEXPECTED, PROBLEM, code=result.code)
        elif step.after is not None:
            self._screen.text(step.after)

    def _run(self, step: Step, command: str) -> tuple[Result, bool]:
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            result = self._shell.run(command)
            is_as_expected = bool(result.code) == step.fails and bool(re.search(step.expected, result.output))
            if is_as_expected or not step.waits or time.monotonic() > deadline:
                return result, is_as_expected
            time.sleep(POLL_SECONDS)

    def _look_up(self, name: str) -> str:
        return self._shell.run(values.LOOKUPS[name]).output.strip()

    def _find_missing(self, step: Step) -> Need | None:
        has = {
            Need.LAB: self._is_lab,
            Need.WARNINGS: self._is_lab,
            Need.BALANCER: self._has_balancer,
            Need.CURL: shutil.which("curl") is not None,
        }
        for need in sorted(step.needs):
            if not (bool(self._look_up("empty_node_ip")) if need is Need.EMPTY_NODE else has[need]):
                return need
        return None

    def _put(self, question: Question) -> None:
        self._screen.lines("")
        self._screen.text(phrases.QUESTION, BOLD, question=self._screen.of(question.text))
        for index, choice in enumerate(question.choices, 1):
            self._screen.lines(f"  {index}) {self._screen.of(choice.text)}")
        is_first = True
        while True:
            answer = self._screen.ask(phrases.ANSWER, count=len(question.choices))
            if not answer:
                return
            self._obey(answer)
            if not (answer.isdecimal() and 1 <= int(answer) <= len(question.choices)):
                continue
            chosen = int(answer) - 1
            if is_first:
                self._right.append(chosen == question.right)
                is_first = False
            self._screen.text(question.choices[chosen].why)
            if chosen == question.right:
                return

    def _obey(self, order: str) -> None:
        if order == "q":
            raise Quit
        if order == "n":
            raise NextLesson

    def _sum_up(self) -> None:
        if self._right:
            self._screen.text(phrases.RIGHT_ANSWERS, right=sum(self._right), asked=len(self._right))
        if self._missing:
            self._screen.text(phrases.SKIPPED_SUMMARY)
            for need in self._missing:
                self._screen.lines(f"- {self._screen.of(phrases.MISSING[need])}")

    # --- The end -------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _removing_everything(self, only_after_errors: bool = False) -> Iterator[None]:
        is_interrupted = True
        before = {number: signal.signal(number, _interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
        try:
            yield
            is_interrupted = False
        except KeyboardInterrupt:
            with contextlib.suppress(OSError):
                self._screen.lines("")
            raise SystemExit(130) from None
        finally:
            # From here on, no further Ctrl-C can leave something behind; each step has a bound.
            interrupts = signal.signal(signal.SIGINT, signal.SIG_IGN)
            try:
                if is_interrupted or not only_after_errors:
                    self._remove(is_interrupted)
            finally:
                for number, handler in (*before.items(), (signal.SIGINT, interrupts)):
                    signal.signal(number, handler)

    def _remove(self, is_interrupted: bool) -> None:
        removes_lab = bool(self._own_lab)
        if removes_lab and self._asks and not is_interrupted:
            removes_lab = self._screen.ask(phrases.REMOVE_LAB, name=self._own_lab) not in ("n", "no")
        if removes_lab:
            with contextlib.suppress(OSError):  # the terminal is closed, or the pipe's reader has ended
                self._screen.text(phrases.REMOVING_LAB, DIM, name=self._own_lab)
            down = f"bridgehead down --name {shlex.quote(self._own_lab)} --delete"
            self._shell.run(down)
        elif self._has_namespace:
            with contextlib.suppress(OSError):
                self._screen.text(phrases.REMOVING, DIM)
            self._delete_namespace()

    def _delete_namespace(self) -> None:
        # The client ignores SIGTERM, as process 1 of its namespace does: its grace period would be waited for.
        pods = f"kubectl -n {NAMESPACE} delete pods --all --grace-period=1 --wait=false"
        self._shell.run(f"{pods}; kubectl delete namespace {NAMESPACE} --timeout=90s")
        self._has_namespace = False


def _interrupt(number: int, _frame: object) -> NoReturn:
    raise SystemExit(128 + number)


def print_lessons(language: Language) -> None:
    screen = Screen(language)
    for number, lesson in enumerate(LESSONS, 1):
        screen.lines(f"{number:2}  {lesson.name:<16}{screen.of(lesson.title)}")
