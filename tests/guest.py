"""Runs tests marked `guest` in a kernel of their own: Debian's user-mode-linux, booted on this machine's root.

Many kernels lack IPVS, dummy interfaces and SCTP, and an ordinary user cannot load them. `linux.uml` is an ordinary
program that is a kernel, needs no rights at all, and has them as modules. It boots in two seconds.

The first such test starts the guest with all of them, which run after the other tests. The guest runs pytest and sends
each report; these become the results of the tests here, as if they had run here. The guest sees this machine's root
read-only, has no network, and ends with its tests or the session: when that ends, when it is killed, and when the guest
takes too long. pytest-xdist gives all files with such tests to one worker (tests/conftest.py). If a guest ends too
early, the tests of the file that it ran fail, and those of the next file get another guest.

`tests/integration/conftest.py` puts this into pytest on both sides; `guest-init` is the guest's first process,
and `guest-xstate.c` lets it start on processors that are younger than it.
Benchmarks start guests, too (`benchmarks/guest.py`).
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests import tools

ROOT = Path(__file__).parents[1]
INIT = Path(__file__).with_name("guest-init")
XSTATE = Path(__file__).with_name("guest-xstate.c")
MODULES = Path("/usr/lib/uml/modules")
REPORTS_VARIABLE = "BRIDGEHEAD_GUEST_REPORTS"  # is there inside the guest: where its reports go
# Many times what they take where nothing else runs.
_SECONDS = 3600  # in which all of its tests have to be over
_SILENCE_SECONDS = 330  # in which a test has to be over, which ends itself after 300
_PATIENCE_SECONDS = 360  # of who waits for a test here
_PYTEST = ("-m", "pytest", "-p", "no:cacheprovider", "-q", "-o", "timeout=300", "--strict-markers")


def is_guest() -> bool:
    """Whether this process runs in the guest."""
    return REPORTS_VARIABLE in os.environ


def what_is_missing() -> str:
    """Why this machine cannot run the guest; "" when it can."""
    if not MODULES.is_dir():
        return tools.describe_missing("linux.uml") or f"{MODULES} is missing (Debian: apt-get install user-mode-linux)"
    return tools.describe_missing("linux.uml", "modprobe", "cc")


def files_with_guest_tests() -> frozenset[str]:
    """Return the files with tests marked `guest`, relative to the checkout."""
    files = (ROOT / "tests").rglob("test_*.py")
    return frozenset(str(path.relative_to(ROOT)) for path in files if "pytest.mark.guest" in path.read_text("utf-8"))


class GuestEnded(Exception):
    """The guest ended, or was ended, before all tests were over."""


class Guest:
    """A running guest. `close` it."""

    def __init__(
        self, arguments: Sequence[str], *, seconds: float = _SECONDS, silence_seconds: float = _SILENCE_SECONDS
    ) -> None:
        """`arguments` are Python's, run by the guest in this checkout; the guest sends JSON objects, one a line.

        It is ended after so many seconds; `messages` waits for each no longer than `silence_seconds`.
        """
        self._silence_seconds = silence_seconds
        self._directory = Path(tempfile.mkdtemp(prefix="bridgehead-guest-"))
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        (self._directory / "arguments").write_text("".join(f"{argument}\n" for argument in arguments))
        xstate = self._directory / "xstate.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-nostdlib", "-O2", "-o", xstate, XSTATE], check=True)
        reports, theirs = os.pipe()
        self._reports = reports
        with open(self._directory / "console", "wb") as console:
            self._process = subprocess.Popen(
                [
                    "linux.uml",
                    "mem=640M",
                    "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro",
                    f"init={INIT}",
                    f"uml_dir={self._directory}/", "umid=guest",
                    "con=null", "con0=null,fd:1",
                    f"ssl0=null,fd:{theirs}",
                    "quiet",
                    # Parameters that the kernel does not know become the environment of the first process.
                    f"GUEST_DIRECTORY={self._directory}", f"GUEST_CHECKOUT={ROOT}", f"GUEST_PYTHON={sys.executable}",
                ],
                stdin=subprocess.DEVNULL, stdout=console, stderr=console, pass_fds=(theirs,), start_new_session=True,
                preexec_fn=_end_with_the_parent, env={**os.environ, "LD_PRELOAD": str(xstate)},
            )  # fmt: skip
        os.close(theirs)
        # Tests of this side may come in between; the guest must not wait for them in the midst of a test.
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._limit = threading.Timer(seconds, self._kill)
        self._limit.daemon = True
        self._limit.start()

    def close(self) -> None:
        """End the guest, in any state, and remove its files."""
        self._limit.cancel()
        self._limit.join()
        self._kill()
        self._process.wait()
        self._reader.join()
        shutil.rmtree(self._directory, ignore_errors=True)

    def messages(self) -> Iterator[dict[str, Any]]:
        """Yield the guest's messages. Raises GuestEnded when it has ended, or is silent for too long."""
        while True:
            try:
                line = self._lines.get(timeout=self._silence_seconds)
            except queue.Empty:
                raise GuestEnded(f"nothing came for too long\n{self.console()}") from None
            if not line:
                raise GuestEnded(self.console())
            if line.strip():
                yield json.loads(line)

    def _read(self) -> None:
        """Take what comes, until the last process of the guest has ended; then an empty line."""
        with open(self._reports, encoding="ascii") as reports:
            for line in reports:
                self._lines.put(line)
        self._lines.put("")

    def _kill(self) -> None:
        # It has started processes of its own, all in its session.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def console(self) -> str:
        """The last of what the kernel and the tests printed."""
        return (self._directory / "console").read_text(errors="replace")[-4000:]


def _end_with_the_parent() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


# --- On this side: the results of the guest's tests ------------------------------------------------------------


class HostPlugin:
    """Takes the results of tests marked `guest` from a guest."""

    def __init__(self) -> None:
        self._guest: Guest | None = None
        self._messages: Iterator[dict[str, Any]] = iter(())
        self._reports: dict[str, list[pytest.TestReport]] = {}
        self._failure = ""
        self._file: Path | None = None  # of the last test
        self._nodes: list[str] = []  # in the order of the guest

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            if item.get_closest_marker("guest"):
                item.add_marker(pytest.mark.timeout(_PATIENCE_SECONDS))

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._nodes = [item.nodeid for item in session.items if item.get_closest_marker("guest")]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        if item.get_closest_marker("guest") is None:
            self._close()  # also its thread: some tests can only run in a process that has none
            return None
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for report in self._reports_of(item):
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        # Fixtures that later tests outside the guest do not need end here, as they would after an ordinary test.
        item.session._setupstate.teardown_exact(nextitem)
        return True

    def pytest_sessionfinish(self) -> None:
        self._close()

    def _close(self) -> None:
        if self._guest is not None:
            self._guest.close()
            self._guest = None

    def _reports_of(self, item: pytest.Item) -> list[pytest.TestReport]:
        missing = what_is_missing()
        if missing and tools.is_strict():
            return [_report(item, "failed", missing)]
        if missing:
            return [_report(item, "skipped", (str(item.path), 0, f"Skipped: {missing}"))]
        try:
            if item.path != self._file:
                if self._failure:
                    self._close()
                self._file, self._failure = item.path, ""
            self._start(item)
            while not any(report.when == "teardown" for report in self._reports.get(item.nodeid, ())):
                self._take(next(self._messages), item.config)
        except (GuestEnded, StopIteration, OSError, subprocess.SubprocessError) as error:
            self._failure = self._failure or f"the guest ended before this test was over: {error}"
            return [*self._reports.pop(item.nodeid, ()), _report(item, "failed", self._failure)]
        return self._reports.pop(item.nodeid)

    def _start(self, item: pytest.Item) -> None:
        if self._guest is None and not self._failure:
            self._guest = Guest([*_PYTEST, *self._nodes[self._nodes.index(item.nodeid) :]])
            self._messages = self._guest.messages()
            message = next(self._messages)  # the first one: pytest has started
            if message:
                self._take(message, item.config)

    def _take(self, message: dict[str, Any], config: pytest.Config) -> None:
        report = config.hook.pytest_report_from_serializable(config=config, data=message)
        if isinstance(report, pytest.TestReport):
            if isinstance(report.longrepr, list):  # JSON has no tuples
                report.longrepr = tuple(report.longrepr)
            self._reports.setdefault(report.nodeid, []).append(report)
        elif isinstance(report, pytest.CollectReport) and report.failed:
            raise GuestEnded(f"cannot collect {report.nodeid}: {report.longreprtext}")


def _report(item: pytest.Item, outcome: Any, longrepr: Any) -> pytest.TestReport:
    return pytest.TestReport(item.nodeid, item.location, dict.fromkeys(item.keywords, 1), outcome, longrepr, "call")


# --- In the guest: sending them ---------------------------------------------------------------------------------


class GuestPlugin:
    """Sends each report to the process that started the guest, one JSON object a line."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._file = open(os.environ[REPORTS_VARIABLE], "w", buffering=1, encoding="ascii")  # noqa: SIM115
        self._file.write("{}\n")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._send(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._send(report)

    def pytest_unconfigure(self) -> None:
        self._file.close()

    def _send(self, report: pytest.CollectReport | pytest.TestReport) -> None:
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._file.write(json.dumps(data) + "\n")
