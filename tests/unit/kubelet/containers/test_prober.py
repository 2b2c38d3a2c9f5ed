"""Thresholds of probes, and the order in which they run."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bridgehead.kubelet.containers.handlers import Outcome, resolve_port
from bridgehead.kubelet.containers.probe_state import ProbeState
from bridgehead.kubelet.containers.prober import ContainerProbes
from bridgehead.objects.core import Container, ContainerPort, Probe
from tests.unit.virtual_time import run_virtual


@pytest.mark.parametrize(
    ("success_threshold", "failure_threshold", "initial", "results", "expected"),
    [
        (1, 3, False, "S", "S"),
        (1, 3, False, "FFS", "--S"),
        (2, 3, False, "SFSS", "---S"),
        (1, 3, True, "FFF", "--F"),
        (1, 3, True, "FFSFF", "--S--"),
        (1, 1, True, "FS", "FS"),
        (1, 2, None, "FF", "-F"),
    ],
)
def test_thresholds_decide_the_result(success_threshold, failure_threshold, initial, results, expected):
    state = ProbeState(Probe(success_threshold=success_threshold, failure_threshold=failure_threshold), initial)
    notified = ""
    for result in results:
        notified += ("S" if state.passes else "F") if state.feed(result == "S") else "-"
    assert notified == expected


class Recorder:
    """Answers probes from scripts, and records the notifications."""

    def __init__(self, container, **scripts):
        self.scripts = {kind: list(script) for kind, script in scripts.items()}
        self.notified = []
        self.asked = []
        self.container = container
        self.event = asyncio.Event()

    async def perform(self, probe):
        kind = next(k for k in self.scripts if getattr(self.container, f"{k}_probe") is probe)
        self.asked.append(kind)
        script = self.scripts[kind]
        answer = script.pop(0) if len(script) > 1 else script[0]
        success = {"S": True, "W": True, "F": False, "?": None}[answer]
        return Outcome(success, "output", is_warning=answer == "W")

    def notify(self, *what):
        self.notified.append(what)
        self.event.set()

    def probes(self, **known):
        return ContainerProbes(
            self.container,
            perform=self.perform,
            changed=lambda: self.notify("changed"),
            report=lambda kind, outcome: self.notify("reported", kind, outcome.output),
            failed=lambda kind, probe: self.notify("failed", kind),
            **known,
        )


async def run_until(probes, condition):
    task = asyncio.create_task(probes.run(0.0))
    try:
        async with asyncio.timeout(20):
            while not condition():  # noqa: ASYNC110 - the probes under test give up control all the time
                await asyncio.sleep(0)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


QUICK = Probe(period_seconds=0, failure_threshold=2)


async def test_without_probes_a_container_is_ready_at_once():
    probes = Recorder(Container(name="c")).probes()
    assert probes.started
    assert probes.ready
    assert not probes.has_work


async def test_readiness_follows_its_probe():
    recorder = Recorder(Container(name="c", readiness_probe=QUICK), readiness="SSFF")
    probes = recorder.probes()
    assert not probes.ready
    await run_until(probes, lambda: len(recorder.notified) >= 4)
    assert recorder.notified[:4] == [
        ("changed",),
        ("reported", "Readiness", "output"),
        ("reported", "Readiness", "output"),
        ("changed",),
    ]
    assert not probes.ready


async def test_a_warning_is_reported_and_is_a_success():
    recorder = Recorder(Container(name="c", readiness_probe=QUICK), readiness="W")
    probes = recorder.probes()
    await run_until(probes, lambda: len(recorder.notified) >= 3)
    assert recorder.notified[:3] == [
        ("reported", "Readiness", "output"),
        ("changed",),
        ("reported", "Readiness", "output"),
    ]
    assert probes.ready


async def test_other_probes_wait_for_the_startup_probe():
    startup, readiness = QUICK, Probe(period_seconds=0)
    container = Container(name="c", startup_probe=startup, readiness_probe=readiness)
    recorder = Recorder(container, startup="FS", readiness="S")
    probes = recorder.probes()
    assert not probes.started
    await run_until(probes, lambda: probes.ready)
    assert recorder.asked[:3] == ["startup", "startup", "readiness"]


def test_the_startup_probe_runs_more_often_than_its_period():
    """Only attempts at whole periods count as failures; a success in between ends the wait."""
    asked_at = []

    async def main(script):
        recorder = Recorder(
            Container(name="c", startup_probe=Probe(period_seconds=2, failure_threshold=2)), startup=script
        )
        perform = recorder.perform

        async def note(probe):
            asked_at.append(round(asyncio.get_running_loop().time(), 3))
            return await perform(probe)

        recorder.perform = note
        await recorder.probes().run(0.0)
        return recorder.notified

    assert run_virtual(main("FFFS")) == [("changed",)]
    assert asked_at == [0.0, 0.1, 0.14, 0.196]
    asked_at.clear()
    # A program has `failureThreshold` periods, and an Event for each of them.
    report = ("reported", "Startup", "output")
    assert run_virtual(main("F")) == [report, report, ("failed", "startup")]
    first = [0.0, 0.1, 0.14, 0.196, 0.274, 0.384, 0.538, 0.753, 1.054, 1.476]
    assert asked_at == [*first, *(round(2 + moment, 3) for moment in first), 4.0]
    asked_at.clear()
    assert run_virtual(main("F" * 12 + "S"))[-2:] == [report, ("changed",)]


@pytest.mark.parametrize("kind", ["startup", "liveness", "readiness"])
def test_a_period_counts_from_begin_to_begin(kind):
    probe = Probe(period_seconds=2, timeout_seconds=1, failure_threshold=3, initial_delay_seconds=1)
    probes: dict[str, Any] = {f"{kind}_probe": probe}
    recorder = Recorder(Container(name="c", **probes), **{kind: "F"})
    begun_at = []

    async def main():
        perform, loop = recorder.perform, asyncio.get_running_loop()

        async def time_out(probe):
            begun_at.append(loop.time())
            await asyncio.sleep(probe.timeout_seconds)
            return await perform(probe)

        recorder.perform = time_out
        task = asyncio.create_task(recorder.probes().run(0.0))
        await asyncio.sleep(6.5 if kind != "startup" else 8.5)  # which has the whole first period
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    run_virtual(main())
    assert {1, 3, 5} <= set(map(round, begun_at))
    assert ("failed", kind) in recorder.notified or kind == "readiness"


@pytest.mark.parametrize("kind", ["startup", "liveness"])
async def test_a_failure_is_reported_once(kind):
    probes: dict[str, Any] = {f"{kind}_probe": QUICK}
    recorder = Recorder(Container(name="c", **probes), **{kind: "F"})
    await run_until(recorder.probes(), lambda: ("failed", kind) in recorder.notified)
    assert recorder.asked == [kind] * (2 if kind == "liveness" else 3)  # the first startup probe counts for nothing


async def test_an_unknown_result_counts_for_nothing():
    recorder = Recorder(Container(name="c", liveness_probe=QUICK), liveness="???SF")
    await run_until(recorder.probes(), lambda: len(recorder.asked) >= 4)
    assert ("failed", "liveness") not in recorder.notified


async def test_an_adopted_container_keeps_its_results():
    container = Container(name="c", startup_probe=QUICK, readiness_probe=QUICK)
    probes = Recorder(container, startup="F", readiness="F").probes(was_started=True, was_ready=True)
    assert probes.ready


async def test_a_terminating_container_has_no_liveness_probe():
    readiness = Probe(period_seconds=0, failure_threshold=2)
    recorder = Recorder(
        Container(name="c", liveness_probe=Probe(period_seconds=0), readiness_probe=readiness),
        liveness="F",
        readiness="F",
    )
    probes = recorder.probes(was_ready=True)
    probes.stop_liveness()
    await run_until(probes, lambda: not probes.ready)
    assert "liveness" not in recorder.asked


@pytest.mark.parametrize(
    ("port", "number"), [(80, 80), ("8080", 8080), ("web", 9090), ("none", None), (0, None), (70000, None)]
)
def test_probe_ports_are_numbers_or_names(port, number):
    container = Container(name="c", ports=(ContainerPort(container_port=9090, name="web"),))
    if number is None:
        text = 'parsing "none": invalid syntax' if port == "none" else f"invalid port number: {port}"
        with pytest.raises(ValueError, match=text):
            resolve_port(port, container)
    else:
        assert resolve_port(port, container) == number
