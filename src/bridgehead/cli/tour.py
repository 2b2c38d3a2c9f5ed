"""Go through the lessons of Services, step by step, in a cluster: commands, their real output, and a question each.

The lessons: cluster IPs, endpoints, node ports, DNS, environment variables, session affinity, traffic policies, proxy
modes, headless Services, ExternalName, load balancers, and Services that do not work. The texts are in English or
Chinese, by the locale.

The tour uses the lab that runs, or starts one and removes it at the end. It works in the namespace `tour`, which it
deletes at the end, and changes nothing else. Steps for which the cluster or the machine lacks something are skipped.
With --yes nothing is asked; then the exit code is 1 if a step did not give what its lesson promises.

Example:

    bridgehead tour --lang zh --lesson 3
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bridgehead.insight.tour.lesson import Language
from bridgehead.lab import preflight, state_directories

from .exit_codes import fail
from .lab_options import DEFAULT_NAME, Name, StateDir, find_lab, reporting_errors
from .parsing import path

if TYPE_CHECKING:
    from .tour_walk import Tour

OWN_LAB = "tour"


def command(
    lang: Annotated[Language | None, typer.Option(help="Language of the texts. Default: by the locale.")] = None,
    lesson: Annotated[list[int] | None, typer.Option(help="Only this lesson; may be repeated.", min=1)] = None,
    list_lessons: Annotated[bool, typer.Option("--list", help="Print the lessons.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing, confirm everything.")] = False,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(parser=path, help="Kubeconfig file of a cluster that is no lab. KUBECONFIG is not used."),
    ] = None,
    name: Name = None,
    state_dir: StateDir = None,
) -> None:
    from bridgehead.insight.tour.lessons import LESSONS

    from .tour_walk import Tour, print_lessons

    language = lang or language_of(os.environ)
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    if list_lessons:
        print_lessons(language)
        return
    numbers = sorted(set(lesson or range(1, len(LESSONS) + 1)))
    if numbers[-1] > len(LESSONS):
        fail("tour", f"there is no lesson {numbers[-1]}: there are {len(LESSONS)}", 2)
    if not yes and not sys.stdin.isatty():
        fail("tour", "the tour asks questions, and standard input is no terminal; --yes goes on without them", 2)
    with reporting_errors():
        preflight.extend_path()
        tour = Tour(language, asks=not yes)
        if kubeconfig is not None:
            tour.use_cluster(kubeconfig)
        else:
            name = name or (None if state_dir else _choose_lab(tour))
            files = find_lab(name, state_dir)
            tour.use_lab(files, state_directories.read_running(files).config, state_dir)
        code = tour.run(numbers)
    raise typer.Exit(code)


def _choose_lab(tour: Tour) -> str | None:
    """Return the name of the lab to use: None for the default one; without it, the tour starts its own."""
    running = state_directories.list_running()
    if DEFAULT_NAME in running:
        return None
    if OWN_LAB not in running:
        tour.start_lab(OWN_LAB)
    return OWN_LAB


def language_of(environment: Mapping[str, str]) -> Language:
    """Return the language of a locale, by the variables that decide on messages."""
    for variable in ("LC_ALL", "LC_MESSAGES", "LANG"):
        if environment.get(variable):
            return Language.CHINESE if environment[variable].startswith("zh") else Language.ENGLISH
    return Language.ENGLISH
