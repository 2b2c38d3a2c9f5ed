"""Thresholds of probes, and the order in which they run."""

from __future__ import annotations

import asyncio

import pytest

from bridgehead.kubelet.handlers import Outcome, resolve_port
from bridgehead.kubelet.probes import ContainerProbes, ProbeState
from bridgehead.objects.core import Container, ContainerPort, Probe

from .virtual_time import run_virtual


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
def test_thresholds(success_threshold, failure_threshold, initial, results, expected):
    state = ProbeState(Probe(success_threshold=success_threshold, failure_threshold=failure_threshold), initial)
    told = ""
    for result in results:
        told += ("S" if state.passes else "F") if state.feed(result == "S") else "-"
    assert told == expected


class Recorder:
    """Answers probes from scripts, and notes what is told."""

    def __init__(self, container, **scripts):
        self.scripts = {kind: list(script) for kind, script in scripts.items()}
        self.told = []
        self.asked = []
        self.container = container
        self.event = asyncio.Event()

    async def perform(self, probe):
        kind = next(k for k in self.scripts if getattr(self.container, f"{k}_probe") is probe)
        self.asked.append(kind)
        script = self.scripts[kind]
        answer = script.pop(0) if len(script) > 1 else script[0]
        return Outcome({"S": True, "F": False, "?": None}[answer], "words")

    def tell(self, *what):
        self.told.append(what)
        self.event.set()

    def probes(self, **known):
        return ContainerProbes(
            self.container,
            perform=self.perform,
            changed=lambda: self.tell("changed"),
            unhealthy=lambda kind, outcome: self.tell("unhealthy", kind, outcome.output),
            failed=lambda kind, probe: self.tell("failed", kind),
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


async def test_nothing_to_probe_is_ready_at_once():
    probes = Recorder(Container(name="c")).probes()
    assert probes.started
    assert probes.ready
    assert not probes.has_work


async def test_readiness_comes_and_goes():
    recorder = Recorder(Container(name="c", readiness_probe=QUICK), readiness="SSFF")
    probes = recorder.probes()
    assert not probes.ready
    await run_until(probes, lambda: len(recorder.told) >= 4)
    assert recorder.told[:4] == [
        ("changed",),
        ("unhealthy", "Readiness", "words"),
        ("unhealthy", "Readiness", "words"),
        ("changed",),
    ]
    assert not probes.ready


async def test_others_wait_for_the_startup_probe():
    startup, readiness = QUICK, Probe(period_seconds=0)
    container = Container(name="c", startup_probe=startup, readiness_probe=readiness)
    recorder = Recorder(container, startup="FS", readiness="S")
    probes = recorder.probes()
    assert not probes.started
    await run_until(probes, lambda: probes.ready)
    assert recorder.asked[:3] == ["startup", "startup", "readiness"]


def test_startup_is_looked_for_more_often_than_its_period():
    """Only the tries at whole periods count as failures; a success in between ends the wait."""
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
        return recorder.told

    assert run_virtual(main("FFFS")) == [("unhealthy", "Startup", "words"), ("changed",)]
    assert asked_at == [0.0, 0.1, 0.2, 0.4]
    asked_at.clear()
    assert ("failed", "startup") in run_virtual(main("F"))
    assert asked_at == [0.0, 0.1, 0.2, 0.4, 0.8, 1.6, 2.0]


@pytest.mark.parametrize("kind", ["startup", "liveness"])
async def test_a_failed_container_is_told_once(kind):
    recorder = Recorder(Container(name="c", **{f"{kind}_probe": QUICK}), **{kind: "F"})
    await run_until(recorder.probes(), lambda: ("failed", kind) in recorder.told)
    assert recorder.asked == [kind, kind]


async def test_a_probe_that_could_not_be_made_counts_for_nothing():
    recorder = Recorder(Container(name="c", liveness_probe=QUICK), liveness="???SF")
    await run_until(recorder.probes(), lambda: len(recorder.asked) >= 4)
    assert ("failed", "liveness") not in recorder.told


async def test_a_container_found_running_keeps_what_is_known_of_it():
    container = Container(name="c", startup_probe=QUICK, readiness_probe=QUICK)
    probes = Recorder(container, startup="F", readiness="F").probes(was_started=True, was_ready=True)
    assert probes.ready


async def test_an_ending_container_is_not_probed_for_life():
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
def test_ports_by_number_and_by_name(port, number):
    container = Container(name="c", ports=(ContainerPort(container_port=9090, name="web"),))
    if number is None:
        with pytest.raises(ValueError, match="port"):
            resolve_port(port, container)
    else:
        assert resolve_port(port, container) == number
