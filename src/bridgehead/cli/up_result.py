"""The result of `up` for programs, and `up --wait` of a lab that runs already."""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import msgspec
import typer

from bridgehead.forwarding.published import parse_all_published
from bridgehead.lab import state_directories
from bridgehead.lab.errors import AlreadyRunning, LabError, NotRunning
from bridgehead.lab.plan import LabConfig, LabFiles, plan_nodes
from bridgehead.lab.range_choice import Role, choose_ranges

from .exit_codes import INTERRUPTED, describe, error_code_of, exit_code_of
from .lab_options import with_own_command
from .options import spelled

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_START_BOUND: Final = 60.0  # seconds until another `up` has a first process; it writes certificates before
_LOOK_EVERY: Final = 0.05  # seconds


def wait_running(
    files: LabFiles,
    options: DataclassInstance,
    wanted_ranges: Mapping[Role, str | None],
    again: str,
    wait_ready: Callable[[LabConfig], None],
) -> LabConfig:
    """Wait until the lab is ready whose lock another process holds, and return its configuration.

    `wanted_ranges`: the ranges among the options. `again`: the options that choose this lab. Raises `LabError` for
    options that differ from those of the lab, or if it ends.
    """
    deadline = time.monotonic() + _START_BOUND
    while True:
        try:
            config = state_directories.read_running(files).config
            break
        except NotRunning:
            if not state_directories.is_running(files) or time.monotonic() > deadline:
                raise
            time.sleep(_LOOK_EVERY)
    choose_ranges(wanted_ranges, config.ip_family, config, ())  # which refuses other ones
    if differing := _differing(options, config):
        raise AlreadyRunning(
            f"the lab {config.name!r} is already running, {differing}: leave the option out, or stop the lab first:"
            f" `bridgehead down{again}`"
        )
    if getattr(options, "dashboard", False):
        sys.stderr.write(f"bridgehead: the lab was running already; `bridgehead dashboard{again}` shows it\n")
    wait_ready(config)
    return config


def _differing(options: DataclassInstance, config: LabConfig) -> str:
    """Return the first option that was given and is not as in the configuration of the running lab, "" for none."""
    if getattr(options, "restore", None) is not None:
        return "and --restore is for a lab that starts"
    for field in dataclasses.fields(options):
        wanted = getattr(options, field.name)
        if wanted == field.default or field.name == "name" or not hasattr(config, field.name):
            continue
        now = getattr(config, field.name)
        is_list = isinstance(wanted, list)
        if ([text for text in wanted if text] != list(now)) if is_list else wanted != now:
            shown = f"with {spelled(field.name)} {' '.join(now) if is_list else now}"
            return f"without {spelled(field.name)}" if now in (False, None, (), "") else shown
    return ""


def render_lab(config: LabConfig, files: LabFiles, seconds: float, dashboard: str) -> str:
    """Return a lab that is ready as one JSON object on one line. `dashboard`: an address, or ""."""
    document: dict[str, Any] = {
        "name": config.name,
        "kubeconfig": str(files.kubeconfig),
        "context": config.context,
        "server": f"https://127.0.0.1:{config.port}",
        "nodes": [
            {"name": node.name, "addresses": list(node.addresses), "podRanges": list(node.pod_ranges)}
            for node in plan_nodes(config)
        ],
        "ranges": [
            {
                "family": f"ipv{ranges.version}",
                "nodes": ranges.fabric,
                "pods": ranges.pods,
                "services": ranges.services,
                "loadBalancers": ranges.balancer if config.balancer else None,
                "dns": ranges.cluster_dns,
            }
            for ranges in config.ranges
        ],
        "published": [
            {
                "protocol": each.protocol,
                "address": "127.0.0.1",
                "port": each.local,
                "service": {"namespace": each.service.namespace, "name": each.service.name} if each.service else None,
                "targetPort": each.port,
            }
            for each in parse_all_published(config.publish)
        ],
        "dashboard": dashboard or None,
        "stateDirectory": str(files.root),
        "seconds": round(seconds, 3),
    }
    return f"{msgspec.json.encode(document).decode()}\n"


def render_error(error: BaseException) -> str:
    """Return an error as one JSON object on one line."""
    text = "interrupted" if isinstance(error, KeyboardInterrupt) else with_own_command(describe(error))
    found = {"code": error_code_of(error), "message": text, "exitCode": exit_code_of(error)}
    return f"{msgspec.json.encode({'error': found}).decode()}\n"


@contextmanager
def reporting_errors_as_json(is_json: bool) -> Iterator[None]:
    """Print errors to standard output, too, if `is_json`; a Ctrl-C ends the command with its exit code."""
    try:
        yield
    except (LabError, OSError, KeyboardInterrupt) as error:
        if isinstance(error, OSError) and error.filename is None:  # of standard output itself
            raise
        if is_json:
            sys.stdout.write(render_error(error))
            sys.stdout.flush()
        if isinstance(error, KeyboardInterrupt):
            raise typer.Exit(INTERRUPTED) from None
        raise
