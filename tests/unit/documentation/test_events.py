"""Reasons of Events in the source."""

from __future__ import annotations

import re

import pytest
from documentation import events
from documentation.source import Module, modules


def found_in(source: str) -> set[tuple[str, str, str]]:
    module = Module("kubelet/x.py", source)
    return {(event.reason, event.type, event.message) for event in events._events_of(module)}


@pytest.mark.parametrize(
    ("source", "event"),
    [
        ("recorder.record(pod, type='Warning', reason='Unhealthy', message='m')", ("Unhealthy", "Warning", "m")),
        ("recorder.record(pod, reason='Started', message=f'of {pod.name}')", ("Started", "Normal", "of {name}")),
        ("message = 'm'; recorder.record(pod, reason='Started', message=message)", ("Started", "Normal", "m")),
        ("yield Event('web', 'Warning', 'Killing', 'm')", ("Killing", "Warning", "m")),
        ("return Note('Killing', 'm')", ("Killing", "Normal", "m")),
        (
            "reason = 'Pulled' if x else 'Pulling'; recorder.record(pod, reason=reason, message='')",
            ("Pulling", "Normal", ""),
        ),
    ],
)
def test_a_reason_is_found(source: str, event: tuple[str, str, str]) -> None:
    assert event in found_in(f"def f(pod):\n    {source}\n")


def test_a_reason_that_is_passed_on_is_found() -> None:
    source = (
        "def _fail(pod, reason, message):\n    recorder.record(pod, type='Warning', reason=reason, message=message)\n"
    )
    assert found_in(source + "def f(pod):\n    _fail(pod, 'BackOff', 'm')\n") == {("BackOff", "Warning", "m")}


def test_every_module_that_records_events_has_some_on_the_page() -> None:
    """A recorder that the page misses is one whose reason comes from elsewhere: `EventRecorder` itself, and these."""
    elsewhere = {
        "balancer/controller/object_reports.py",  # of a Rejection
        "balancer/speaker/assembly.py",  # of BGP's announcer
        "balancer/speaker/speaker_reconciler.py",  # of an EventReport
        "kubelet/containers/context.py",  # of its callers
        "proxy/operating/problems.py",  # of a Problem
    }
    with_events = {event.module for event in events.found()}
    recording = {
        module.path
        for module in modules()
        if module.path.startswith(("balancer", "controllers", "kubelet", "proxy"))
        and re.search(r"recorder\.record\(", module.text)
    }
    assert recording - with_events - elsewhere == set()


def test_composed_reasons_are_in_their_modules() -> None:
    texts = {module.path: module.text for module in modules()}
    for reason, path in events.COMPOSED:
        stem = re.sub(r"\{.*", "", reason)
        assert stem in texts[path] or stem.startswith(("Successful", "Failed")), (reason, path)
