"""Problems of a Service are reported once, in bounded texts, and forgotten with it."""

from __future__ import annotations

import pytest

from bridgehead.objects.core import Service
from bridgehead.objects.meta import ObjectKey
from bridgehead.proxy.frontends import Problem, Reason
from bridgehead.proxy.operating.problems import ProblemReporter, quote_name

KEY = ObjectKey("default", "web")


class Recorder:
    def __init__(self) -> None:
        self.messages: list[str] = []

    def record(self, about: Service, *, type: str, reason: str, message: str) -> None:
        self.messages.append(message)


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
