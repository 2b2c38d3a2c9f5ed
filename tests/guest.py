"""Runs tests marked `guest` in a kernel of their own: Debian's user-mode-linux, booted on this machine's root.

Many kernels lack IPVS, dummy interfaces and SCTP, and an ordinary user cannot load them. `linux.uml` is an ordinary
program that is a kernel, needs no rights at all, and has them as modules. It boots in two seconds.

The first such test of a session starts the guest with all of them. The guest runs pytest and tells each report, which
become the results of the tests here, as if they had run here. The guest sees this machine's root read-only, has no
network, and ends with the session: when that ends, when it is killed, and when the guest takes too long.

`tests/integration/conftest.py` puts this into pytest on both sides; `guest-init` is the guest's first process.
Benchmarks start guests, too (`benchmarks/guest.py`).
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import json
import os
import queue
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
INIT = Path(__file__).with_name("guest-init")
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
    if shutil.which("linux.uml") is None or not MODULES.is_dir():
        return "linux.uml is not installed (Debian's user-mode-linux; scripts/system-packages does it)"
    if shutil.which("modprobe") is None:
        return "modprobe is not installed (Debian's kmod; scripts/system-packages does it)"
    return ""


class GuestEnded(Exception):
    """The guest ended, or was ended, before all tests were over."""


class Guest:
    """A running guest. `close` it."""

    def __init__(
        self, arguments: Sequence[str], *, seconds: float = _SECONDS, silence_seconds: float = _SILENCE_SECONDS
    ) -> None:
        """`arguments` are Python's, as the guest runs it in this checkout; it tells JSON objects, one a line.

        It is ended after so many seconds; `messages` waits for each no longer than `silence_seconds`.
        """
        self._silence_seconds = silence_seconds
        self._directory = Path(tempfile.mkdtemp(prefix="bridgehead-guest-"))
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        (self._directory / "arguments").write_text("".join(f"{argument}\n" for argument in arguments))
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
                    # What the kernel does not know goes to the first process, as its environment.
                    f"GUEST_DIRECTORY={self._directory}", f"GUEST_CHECKOUT={ROOT}", f"GUEST_PYTHON={sys.executable}",
                    *([f"GLIBC_TUNABLES={_WITHOUT_AVX}"] if has_large_registers() else ()),
                ],
                stdin=subprocess.DEVNULL, stdout=console, stderr=console, pass_fds=(theirs,), start_new_session=True,
                preexec_fn=_prepare,
            )  # fmt: skip
        os.close(theirs)
        # Tests of this side may come in between; the guest must not wait for them in the midst of a test.
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._limit = threading.Timer(seconds, self._kill)
        self._limit.daemon = True
        self._limit.start()

    def close(self) -> None:
        """End it, in whatever state it is, and remove its files."""
        self._limit.cancel()
        self._kill()
        self._process.wait()
        self._reader.join()
        shutil.rmtree(self._directory, ignore_errors=True)

    def messages(self) -> Iterator[dict[str, Any]]:
        """What the guest tells. Raises GuestEnded when it has ended, or is silent for too long."""
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


def _prepare() -> None:
    """In the process that becomes the guest."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if has_large_registers():
        _hide_extended_registers()


# --- Processors with more registers than the guest's kernel has room for ------------------------------------------
#
# Linux before 6.13 as user-mode-linux keeps 2,696 bytes of registers for each of its processes, gives back what it
# read, and the machine's kernel takes all of them or none (EFAULT). With Intel's AMX they are 11,008 bytes, and the
# guest's first process cannot begin. If the guest cannot read them at all, it keeps those of SSE, as on an old
# processor. Then only those are each thread's own, and the C library in there must use no others.

_WITHOUT_AVX = "glibc.cpu.hwcaps=-AVX,-AVX2,-AVX512F,-AVX512VL,-AVX_Fast_Unaligned_Load"
_PR_SET_PDEATHSIG, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 1, 22, 38
_SECCOMP_MODE_FILTER = 2
_PTRACE, _PTRACE_GETREGSET, _NT_X86_XSTATE = 101, 0x4204, 0x202
_LOAD, _IS_EQUAL, _RETURN = 0x20, 0x15, 0x06  # of seccomp's programs; a jump skips so many when true, and when false
_REFUSE, _ALLOW = 0x00050000 | errno.ENODEV, 0x7FFF0000
_NUMBER, _FIRST, _THIRD = 0, 16, 32  # where a system call's number and arguments are
_FILTER = b"".join(
    struct.pack("=HBBI", *step)
    for step in (
        (_LOAD, 0, 0, _NUMBER), (_IS_EQUAL, 0, 5, _PTRACE),
        (_LOAD, 0, 0, _FIRST), (_IS_EQUAL, 0, 3, _PTRACE_GETREGSET),
        (_LOAD, 0, 0, _THIRD), (_IS_EQUAL, 0, 1, _NT_X86_XSTATE),
        (_RETURN, 0, 0, _REFUSE),
        (_RETURN, 0, 0, _ALLOW),
    )
)  # fmt: skip


@functools.cache
def has_large_registers() -> bool:
    return "amx_tile" in Path("/proc/cpuinfo").read_text().split()


def _hide_extended_registers() -> None:
    """From this process and those it starts."""
    steps = ctypes.create_string_buffer(_FILTER, len(_FILTER))
    program = ctypes.create_string_buffer(struct.pack("@HP", len(_FILTER) // 8, ctypes.addressof(steps)))
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    _prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.addressof(program))


def _prctl(*arguments: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(*(ctypes.c_ulong(argument) for argument in (*arguments, 0, 0, 0, 0)[:5])):
        raise OSError(ctypes.get_errno(), f"prctl {arguments[0]}")


# --- On this side: the results of the guest's tests ------------------------------------------------------------


class HostPlugin:
    """Takes the results of tests marked `guest` from a guest."""

    def __init__(self) -> None:
        self._guest: Guest | None = None
        self._told: Iterator[dict[str, Any]] = iter(())
        self._reports: dict[str, list[pytest.TestReport]] = {}
        self._failure = ""
        self._all: list[str] = []

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            if item.get_closest_marker("guest"):
                item.add_marker(pytest.mark.timeout(_PATIENCE_SECONDS))

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._all = [item.nodeid for item in session.items if item.get_closest_marker("guest")]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        if item.get_closest_marker("guest") is None:
            return None
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for report in self._reports_of(item):
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        # What tests of this side need no more ends after this one, as it would have ended after theirs.
        item.session._setupstate.teardown_exact(nextitem)
        return True

    def pytest_sessionfinish(self) -> None:
        if self._guest is not None:
            self._guest.close()
            self._guest = None

    def _reports_of(self, item: pytest.Item) -> list[pytest.TestReport]:
        missing = what_is_missing()
        if missing:
            return [_report(item, "skipped", (str(item.path), 0, f"Skipped: {missing}"))]
        try:
            self._start(item.config)
            while not any(report.when == "teardown" for report in self._reports.get(item.nodeid, ())):
                self._take(next(self._told), item.config)
        except (GuestEnded, StopIteration) as error:
            self._failure = self._failure or f"the guest ended before this test was over: {error}"
            return [*self._reports.pop(item.nodeid, ()), _report(item, "failed", self._failure)]
        return self._reports.pop(item.nodeid)

    def _start(self, config: pytest.Config) -> None:
        if self._guest is None and not self._failure:
            self._guest = Guest([*_PYTEST, *self._all])
            self._told = self._guest.messages()
            message = next(self._told)  # the first one says that pytest is there
            if message:
                self._take(message, config)

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


# --- In the guest: telling them ---------------------------------------------------------------------------------


class GuestPlugin:
    """Tells each report to whoever started the guest, one JSON object a line."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._file = open(os.environ[REPORTS_VARIABLE], "w", buffering=1, encoding="ascii")  # noqa: SIM115
        self._file.write("{}\n")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._tell(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._tell(report)

    def pytest_unconfigure(self) -> None:
        self._file.close()

    def _tell(self, report: pytest.CollectReport | pytest.TestReport) -> None:
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._file.write(json.dumps(data) + "\n")
