"""Problems of a Service are reported once, in bounded texts, and forgotten with it."""

from __future__ import annotations

import asyncio

import pytest

from bridgehead.objects.core import Service
from bridgehead.objects.meta import ObjectKey
from bridgehead.proxy.frontends import Problem, Reason
from bridgehead.proxy.operating.problems import ProblemReporter, quote_name
from tests.unit.virtual_time import run_virtual

KEY = ObjectKey("default", "web")


class Recorder:
    def __init__(self) -> None:
        self.messages: list[str] = []
        self.shared: list[bool] = []

    def record(self, about: Service, *, type: str, reason: str, message: str, is_shared: bool) -> None:
        self.messages.append(message)
        self.shared.append(is_shared)


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def reporter(recorder: Recorder) -> ProblemReporter:
    return ProblemReporter(recorder, lambda key: Service() if key == KEY else None)  # type: ignore[arg-type]


def bad(*numbers: int) -> list[Problem]:
    return [Problem(Reason.BAD_ADDRESS, f"{number:05}") for number in numbers]


def test_a_problem_is_reported_once_until_the_service_is_deleted(reporter: ProblemReporter, recorder: Recorder) -> None:
    reporter.report(KEY, bad(1, 2))
    reporter.report(KEY, [])
    reporter.report(KEY, bad(2, 3))
    assert recorder.messages == ["00001", "00002", "00003"]
    reporter.forget(KEY)
    reporter.report(KEY, bad(1))
    assert recorder.messages[3:] == ["00001"]


def test_the_number_of_events_is_bounded(
    reporter: ProblemReporter, recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    reporter.report(KEY, bad(*range(5000)))
    assert len(recorder.messages) == 10
    assert caplog.messages[-1] == "Service default/web: and 4990 more problems"
    reporter.report(KEY, bad(6000))
    assert len(recorder.messages) == 10


def test_a_port_that_no_endpoint_has_is_reported_if_it_stays_missing(
    reporter: ProblemReporter, recorder: Recorder
) -> None:
    """The EndpointSlices of a Service whose port was renamed have the old name for a moment."""
    missing = [Problem(Reason.PORT_MISMATCH, "no endpoint has a port 'http'/TCP")]

    async def compile_services() -> None:
        reporter.report_compiled(KEY, [*bad(1), *missing])
        assert recorder.messages == ["00001"]
        await asyncio.sleep(1)
        reporter.report_compiled(KEY, bad(1))
        await asyncio.sleep(60)
        assert recorder.messages == ["00001"]
        reporter.report_compiled(KEY, missing)
        await asyncio.sleep(3)
        reporter.report_compiled(KEY, missing)
        await asyncio.sleep(3)
        assert recorder.messages == ["00001", "no endpoint has a port 'http'/TCP"]
        reporter.report_compiled(KEY, [])
        reporter.report_compiled(KEY, missing)
        reporter.forget(KEY)
        await asyncio.sleep(60)
        assert len(recorder.messages) == 2

    run_virtual(compile_services())


def test_a_deleted_service_gets_no_event(
    reporter: ProblemReporter, recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    reporter.report_refused(ObjectKey("default", "gone"), "no")
    assert recorder.messages == []
    assert "Service default/gone: RefusedByKernel: " in caplog.text


@pytest.mark.parametrize("name", ["x" * 4000, "two\nlines", "\x1b[31mred"])
def test_names_fit_into_a_line(name: str) -> None:
    assert len(quote_name(ObjectKey("default", name))) <= 160
    assert quote_name(ObjectKey("default", name)).isprintable()


@pytest.mark.parametrize(
    ("reason", "is_shared"),
    [(Reason.RESERVED_ADDRESS, True), (Reason.CONFLICT, True), (Reason.REFUSED, False), (Reason.NOT_SUPPORTED, False)],
)
def test_proxies_of_all_nodes_make_one_event_of_what_all_of_them_see(
    reason: Reason, is_shared: bool, reporter: ProblemReporter, recorder: Recorder
) -> None:
    reporter.report(KEY, [Problem(reason, "text")])

    assert recorder.shared == [is_shared]
