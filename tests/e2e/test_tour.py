"""The tour's lessons, done in a lab. The texts in the other language have unit tests."""

from __future__ import annotations

import signal
import subprocess

import pytest

from bridgehead.insight.tour.lessons import LESSONS

from .conftest import PATIENCE, Lab, running

pytestmark = pytest.mark.usefixtures("speakers")


def has_namespace(lab: Lab) -> bool:
    return lab.kubectl("get", "namespace", "tour").returncode == 0


def test_w52_every_command_of_the_tour_does_what_its_lesson_promises(lab: Lab) -> None:
    result = lab.command("tour", "--yes", "--lang", "en")
    assert result.returncode == 0, result.stdout + result.stderr
    for lesson in LESSONS:
        assert lesson.title.en in result.stdout
    assert "Skipped" not in result.stdout
    assert not has_namespace(lab)


def test_w52_an_interrupted_tour_leaves_nothing_behind(lab: Lab) -> None:
    with running(*lab.argv("tour", "--yes", "--lesson", "4"), stdout=subprocess.PIPE) as tour:
        assert tour.stdout is not None
        assert any("Lesson 4" in line for line in tour.stdout)
        assert has_namespace(lab)
        tour.send_signal(signal.SIGINT)
        tour.stdout.read()
        assert tour.wait(PATIENCE) == 130
    assert not has_namespace(lab)
