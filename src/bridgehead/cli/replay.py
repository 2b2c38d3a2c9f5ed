"""Rebuild the Services of a recording in a cluster of its own, and compare what the nodes' proxies program.

The cluster has a node for each recorded one, up to --nodes, and the recorded proxy mode. Services get their own cluster
IPs, and changes come at their recorded times. Pods are played by stand-ins, which answer on their ports with the pod's
name and are ready as recorded; nothing of the recorded containers runs. At the end, the Frontends of each node, and the
rules in its kernel, are compared with those of the recording: exit code 0 if they are the same, 1 if not. The cluster
keeps running.

Example:

    bridgehead replay problem.rec --speed max
    eval "$(bridgehead env --name replay)"; kubectl get services -A

Docs: docs/recording.md.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bridgehead.lab import state_directories
from bridgehead.lab.addressing import MAX_NODES
from bridgehead.lab.errors import NotRunning
from bridgehead.objects.meta import ObjectKey

from .cluster_access import Cluster, choose_cluster
from .exit_codes import fail, reporting_failures
from .lab_options import StateDir, options_of, own_command, reporting_errors
from .parsing import path

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from bridgehead.insight.network_namespaces import NetworkNamespaces
    from bridgehead.insight.recording.format import Recording
    from bridgehead.insight.recording.replay_plan import Plan, State
    from bridgehead.lab.plan import LabConfig, LabFiles
    from bridgehead.objects.core import Node

_NAME = "replay"
_OWN_SERVICES = {ObjectKey("default", "kubernetes"), ObjectKey("kube-system", "kube-dns")}  # of every lab
_MOST_LINES = 20  # differences of one node
_MOST_PODS = 500


def command(
    file: Annotated[Path, typer.Argument(metavar="FILE", parser=path, show_default=False, help="A recording.")],
    speed: Annotated[
        str, typer.Option(help="Speed of the changes: a factor, or `max` for no pauses.", metavar="NUMBER|max")
    ] = "1",
    nodes: Annotated[int, typer.Option(min=1, max=MAX_NODES, help="Largest number of nodes.")] = 5,
    pods: Annotated[
        int,
        typer.Option(min=0, max=_MOST_PODS, help="Largest number of pods that run; others are objects only."),
    ] = 100,
    name: Annotated[
        str, typer.Option("--name", help="Name of the lab, which must be new or have no Services.")
    ] = _NAME,
    state_dir: StateDir = None,
) -> None:
    from bridgehead.client.errors import ClientError
    from bridgehead.insight.recording.files import read_recording
    from bridgehead.insight.recording.format import InvalidRecording
    from bridgehead.insight.recording.replay_plan import TooLarge, recorded_nodes

    factor = _parse_speed(speed)
    try:
        recording = read_recording(file)
    except InvalidRecording as error:
        fail("replay", f"{file}: {error}")
    except OSError as error:
        fail("replay", f"{file}: {error.strerror}")
    with reporting_errors():
        files = state_directories.find_files(name, state_dir)
        config = _running_lab(files, name, state_dir, min(nodes, max(1, len(recorded_nodes(recording)))))
    cluster = choose_cluster("replay", files.kubeconfig, None, None)
    with reporting_failures("replay", ClientError, TooLarge, _NotEmpty):
        try:
            is_same = asyncio.run(_replay(cluster, config, recording, factor, pods))
        except KeyboardInterrupt:
            raise typer.Exit(130) from None
    own, options = own_command(), options_of(name, state_dir)
    sys.stdout.write(f'Look around: eval "$({own} env{options})"; end it with: {own} down{options}\n')
    if not is_same:
        raise typer.Exit(1)


class _NotEmpty(Exception):
    """The lab has Services already."""


def _parse_speed(text: str) -> float | None:
    """Return the factor; None: without pauses."""
    if text == "max":
        return None
    try:
        factor = float(text)
    except ValueError:
        factor = 0.0
    if not 0.001 <= factor <= 1e6:
        fail("replay", f"--speed {text!r} is neither a positive number nor `max`", 2)
    return factor


def _running_lab(files: LabFiles, name: str, state_dir: Path | None, nodes: int) -> LabConfig:
    """Return the configuration of the lab, which is started unless it runs. Raises `LabError`."""
    try:
        return state_directories.read_running(files).config
    except NotRunning:
        pass
    # A new lab is deleted by `down`; one that has a state is started as it was.
    # Offline: stand-ins are of this program, and nothing is pulled.
    new = () if files.config.exists() else ("--ephemeral", "--nodes", str(nodes), "--no-balancer", "--offline")
    directory = ("--state-dir", str(state_dir)) if state_dir else ()
    # A process of its own: the lab's first process is a fork of it, which must not keep the recording in memory.
    paths = [os.path.abspath(each) for each in sys.path if each]
    run = f"import sys; sys.path[:] = {paths!r}; from bridgehead import cli; cli.main()"
    argv = (sys.executable, "-I", "-c", run, "up", "--detach", "--name", name, *directory, *new)
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False)
    if done.returncode:
        raise typer.Exit(done.returncode)
    return state_directories.read_running(files).config


async def _replay(
    cluster: Cluster, config: LabConfig, recording: Recording, speed: float | None, most_pods: int
) -> bool:
    """Rebuild the recording and print how the replay differs. Returns whether it does not."""
    from bridgehead.insight.recording.comparison import recorded_mode
    from bridgehead.insight.recording.replay_plan import plan_replay
    from bridgehead.objects.kinds import NODES, SERVICES

    from .replay_mode import set_proxy_mode
    from .replay_state import ReplayedState
    from .replay_writer import ReplayWriter

    async with cluster.connect("bridgehead-replay") as (client, namespaces):
        existing = {service.key for service in (await client.list(SERVICES)).items}
        if foreign := sorted(existing - _OWN_SERVICES):
            raise _NotEmpty(f'the lab "{config.name}" has the Service {foreign[0]}: --name chooses another lab')
        names = sorted((n.metadata.name for n in (await client.list(NODES)).items), key=lambda n: (len(n), n))
        occupied = [cidr for each in config.ranges for cidr in (each.fabric, each.pods, each.services)]
        plan = plan_replay(recording, names, existing, occupied, most_pods)
        _report_begin(recording, plan, config.name)
        mode = recorded_mode(recording)
        if mode is not None and await set_proxy_mode(client, mode):
            sys.stdout.write(f"the nodes' proxies are set to mode {mode}, as recorded\n")
        writer = ReplayWriter(client, plan, speed)
        await writer.write()
        replayed = ReplayedState(client, plan)
        unsettled = await replayed.wait_settled(writer.written.refused)
        lacking = await replayed.wait_programmed()
        lines = [f"{key}: the lab chose its {what}" for key, what in sorted(writer.written.moved.items())]
        lines += [f"left out {what}: {why}" for what, why in sorted(writer.written.refused.items())]
        lines += _shortened(unsettled)
        lines += [f"not programmed: {each}" for each in lacking]
        sys.stdout.write("".join(f"{line}\n" for line in lines))
        state, nodes, addresses = await replayed.read()
        is_same = _compare_frontends(plan, state, nodes, writer.written.moved)
        ignored = {*map(str, existing), *writer.written.moved}
        is_same &= await _compare_kernels(recording, plan, namespaces, ignored, addresses)
        return is_same and not unsettled and not lacking


def _report_begin(recording: Recording, plan: Plan, lab: str) -> None:
    sys.stderr.write(f'replaying {len(plan.actions)} writes of {recording.seconds:.1f} s in the lab "{lab}"\n')
    sys.stderr.flush()
    for recorded, node in plan.nodes.items():
        sys.stdout.write(f"{node} is the recording's {recorded}\n")
    if plan.objects_only:
        sys.stdout.write(
            f"{plan.objects_only} pods are objects only (--pods, --nodes): connections do not reach them\n"
        )
    sys.stdout.flush()


def _compare_frontends(plan: Plan, state: State, nodes: Iterable[Node], moved: Collection[str]) -> bool:
    """Print for each node whether its Frontends are those of the recording. Returns whether all are.

    `moved`: Services for which the lab chose addresses or ports.
    """
    from bridgehead.insight.recording.comparison import differences, frontends_of
    from bridgehead.insight.recording.replay_plan import State

    services = {
        key: state.services.get(key, each) if str(key) in moved else each for key, each in plan.final.services.items()
    }
    wanted = State(services, plan.final.slices)
    is_same = True
    for node in sorted(nodes, key=lambda each: (len(each.metadata.name), each.metadata.name)):
        recorded, replayed = frontends_of(wanted, node), frontends_of(state, node)
        lines = list(differences(recorded, replayed))
        _report(node.metadata.name, f"{len(replayed)} Frontends", lines)
        is_same &= not lines
    return is_same


async def _compare_kernels(
    recording: Recording,
    plan: Plan,
    namespaces: NetworkNamespaces,
    ignored: Collection[str],
    addresses: Mapping[str, str],
) -> bool:
    """Print for each node whether its kernel has the recorded rules. Returns whether no rules differ.

    `ignored`: Services. `addresses`: address in the lab -> recorded one.
    """
    from bridgehead.insight.facts.network_reading import read_network
    from bridgehead.insight.facts.network_state import RULES
    from bridgehead.insight.network_namespaces import NotEntered
    from bridgehead.insight.recording.comparison import compare_kernels, last_states

    is_same = True
    states = last_states(recording)
    for recorded, node in plan.nodes.items():
        if recorded not in states:
            sys.stdout.write(f"{node}: the recording has no rules of its kernel\n")
            continue
        try:
            state = await read_network(await namespaces.node(node), RULES)
        except NotEntered as error:
            sys.stdout.write(f"{node}: could not look at its kernel: {error}\n")
            continue
        result = compare_kernels(states[recorded], state, ignored, addresses)
        if result.why_not:
            sys.stdout.write(f"{node}: kernels were not compared: {result.why_not}\n")
            continue
        _report(node, f"rules of {result.destinations} destinations in its kernel", result.differences)
        is_same &= not result.differences
    return is_same


def _report(node: str, what: str, differences: Sequence[str]) -> None:
    if not differences:
        sys.stdout.write(f"{node}: {what}, as recorded\n")
        return
    sys.stdout.write(f"{node}: {what}, but not as recorded ({len(differences)})\n")
    sys.stdout.write("".join(f"  {line}\n" for line in _shortened(differences)))


def _shortened(lines: Sequence[str]) -> list[str]:
    others = [f"and {len(lines) - _MOST_LINES} others"] if len(lines) > _MOST_LINES else []
    return [*lines[:_MOST_LINES], *others]
