"""Plugin of pytest that runs tests in forked processes; `make unit` and `scripts/coverage` load it.

    pytest -p tests.forking --capture sys [--processes N]

The first process imports and collects the tests once. Then N processes (default: two more than processors, because
some tests wait; at most four) take files of tests from a queue until it is empty, and send the reports of a file
together to the first process, those of tests that passed as a few values. For tests of a millisecond, this takes a
third less time than pytest-xdist, whose workers collect the tests each for itself and send report by report.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any, Literal, Never

import pytest

_INDEX_SIZE = 2  # bytes; a pipe holds 32,768 such indices

_SHORT = 0.05  # seconds; a set-up or tear-down that passed and took no longer is not reported

_File = list[pytest.Item]  # the tests of one file
# A passed phase of a test: node ID, location, phase, and its duration, begin and end in seconds.
_Passed = tuple[str, tuple[str, int | None, str], Literal["setup", "call", "teardown"], float, float, float]
_Message = tuple[list[_Passed], list[dict[str, Any]], str]  # other reports; the file whose tests begin, "": none


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--processes", type=int, default=min(4, len(os.sched_getaffinity(0)) + 2), metavar="N")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run all tests. Errors of the collection, and a listing of it, are pytest's own business."""
    config = session.config
    if session.testsfailed or config.option.collectonly:
        return None
    if config.getoption("capture") == "fd":
        raise pytest.UsageError("with --capture fd the processes would write to the same files: use --capture sys")
    files = [list(items) for _, items in groupby(session.items, lambda item: item.path)]
    queue = _fill_queue(len(files))
    workers: list[_Worker] = []
    try:
        workers.extend(_fork(session, files, queue) for _ in range(config.getoption("processes")))
        os.close(queue)
        _log_reports(session, {worker.connection: worker for worker in workers})
    finally:
        for worker in workers:
            os.kill(worker.process, signal.SIGKILL)
            os.waitpid(worker.process, 0)
    return True


def _fill_queue(count: int) -> int:
    """Return a pipe with the indices 0 to `count` - 1, from which several processes may read."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)  # more than a pipe holds is an error, not a deadlock
    os.write(writing, b"".join(index.to_bytes(_INDEX_SIZE, "big") for index in range(count)))
    os.close(writing)
    return reading


def _take(files: list[_File], queue: int) -> Iterator[pytest.Item]:
    while index := os.read(queue, _INDEX_SIZE):
        yield from files[int.from_bytes(index, "big")]


@dataclass
class _Worker:
    process: int
    connection: Connection
    file: str = ""  # whose tests it runs


def _fork(session: pytest.Session, files: list[_File], queue: int) -> _Worker:
    receiving, sending = Pipe(duplex=False)
    process = os.fork()
    if not process:
        _work(session, files, queue, sending)
    sending.close()
    return _Worker(process, receiving)


def _work(session: pytest.Session, files: list[_File], queue: int, connection: Connection) -> Never:
    """Run tests in the forked process until the queue is empty, and end it."""
    try:
        config = session.config
        config.pluginmanager.unregister(name="terminalreporter")
        sender = _Sender(config, connection)
        config.pluginmanager.register(sender)
        items = _take(files, queue)
        item = next(items, None)
        while item is not None and not session.shouldfail:
            following = next(items, None)
            config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            item = following
        config._ensure_unconfigure()  # as at the end of a session: plug-ins write what they counted
        sender.send("")
    finally:
        error = sys.exception()
        if error is not None and not isinstance(error, KeyboardInterrupt):
            traceback.print_exception(error, file=sys.__stderr__)
        os._exit(0)  # what the first process does at its exit is not for this one


@dataclass(eq=False)  # pytest keeps plug-ins in sets
class _Sender:
    """Plugin of a forked process that sends its reports."""

    config: pytest.Config
    connection: Connection
    file: str = ""
    passed: list[_Passed] = field(default_factory=list)
    reports: list[dict[str, Any]] = field(default_factory=list)

    def pytest_runtest_logstart(self, location: tuple[str, int | None, str]) -> None:
        if location[0] != self.file:
            self.send(location[0])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.passed and not (report.sections or report.user_properties or hasattr(report, "wasxfail")):
            if report.when == "call" or report.duration > _SHORT:
                timing = report.when, report.duration, report.start, report.stop
                self.passed.append((str(report.nodeid), report.location, *timing))
            return
        data = self.config.hook.pytest_report_to_serializable(config=self.config, report=report)
        self.reports.append(data)

    def send(self, file: str) -> None:
        message: _Message = self.passed, self.reports, file
        self.connection.send(message)
        self.passed, self.reports, self.file = [], [], file


def _log_reports(session: pytest.Session, running: dict[Any, _Worker]) -> None:
    """Log the reports of all workers until they end."""
    hook = session.config.hook
    while running:
        for connection in wait(list(running)):
            worker = running[connection]
            try:
                passed, reports, worker.file = worker.connection.recv()
            except EOFError:
                passed, reports = [], []
                session.shouldfail = f"a process ended while it ran tests of {worker.file}"
            for nodeid, location, when, *times in passed:
                report = pytest.TestReport(nodeid, location, {}, "passed", None, when, (), *times)
                hook.pytest_runtest_logreport(report=report)
            for data in reports:
                report = hook.pytest_report_from_serializable(config=session.config, data=data)
                hook.pytest_runtest_logreport(report=report)
            if session.shouldfail:
                raise session.Failed(session.shouldfail)
            if not worker.file:
                del running[connection]
