"""What is wrong with a Service is told once, in bounded words, and forgotten with it."""

from __future__ import annotations

import pytest

from bridgehead.objects.core import Service
from bridgehead.objects.meta import ObjectKey
from bridgehead.proxy.frontends import Problem, Reason
from bridgehead.proxy.operating.complaints import Complaints, shown_name

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
def complaints(recorder: Recorder) -> Complaints:
    return Complaints(recorder, lambda key: Service() if key == KEY else None)  # type: ignore[arg-type]


def bad(*numbers: int) -> list[Problem]:
    return [Problem(Reason.BAD_ADDRESS, f"{number:05}") for number in numbers]


def test_once_until_the_service_is_deleted(complaints: Complaints, recorder: Recorder) -> None:
    complaints.tell(KEY, bad(1, 2))
    complaints.tell(KEY, [])
    complaints.tell(KEY, bad(2, 3))
    assert recorder.messages == ["00001", "00002", "00003"]
    complaints.forget(KEY)
    complaints.tell(KEY, bad(1))
    assert recorder.messages[3:] == ["00001"]


def test_no_more_than_somebody_would_read(
    complaints: Complaints, recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    complaints.tell(KEY, bad(*range(5000)))
    assert len(recorder.messages) == 10
    assert caplog.messages[-1] == "Service default/web: and 4990 more of the kind"
    complaints.tell(KEY, bad(6000))
    assert len(recorder.messages) == 10


def test_a_service_that_is_gone_gets_no_event(
    complaints: Complaints, recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    complaints.tell_refused(ObjectKey("default", "gone"), "no")
    assert recorder.messages == []
    assert "Service default/gone: RefusedByKernel: " in caplog.text


@pytest.mark.parametrize("name", ["x" * 4000, "two\nlines", "\x1b[31mred"])
def test_names_fit_into_a_line(name: str) -> None:
    assert len(shown_name(ObjectKey("default", name))) <= 160
    assert shown_name(ObjectKey("default", name)).isprintable()
