"""The pages of the documentation, done in a lab of their own, command by command as printed.

A lab of its own, because the pages work in the namespace `default` and change what all of a lab shares: pools of
addresses, the proxies' mode.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import BRIDGEHEAD, Lab, eventually
from .page_shell import PageShell
from .pages import parse

ROOT = Path(__file__).parents[2]
TUTORIALS = sorted((ROOT / "docs" / "tutorials" / "en").glob("[0-9]*.md"))
HOW_TO = sorted(page for page in (ROOT / "docs" / "how-to").glob("*.md") if "```console" in page.read_text("utf-8"))

pytestmark = pytest.mark.needs("bash", "dig", "iptables-save")


def environment_of(home: Path) -> dict[str, str]:
    """Return a reader's environment, in which labs without a name of their own have their state below `home`."""
    return {
        **{name: value for name, value in os.environ.items() if name not in ("BRIDGEHEAD_NAME", "KUBECONFIG")},
        "HOME": str(home),
        "XDG_STATE_HOME": str(home),
        "PATH": f"{BRIDGEHEAD.parent}:{os.environ['PATH']}",  # with the kubectl whose columns the pages show
        "LC_ALL": "C.UTF-8",
    }


def lab_of(home: Path) -> Lab:
    return Lab("bridgehead", home / "bridgehead" / "bridgehead")


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment of a reader whose lab runs."""
    home = tmp_path_factory.mktemp("home")
    lab = lab_of(home)
    try:
        lab.start("--ephemeral")
        yield environment_of(home)
    finally:
        lab.stop()


@pytest.mark.parametrize("page", ["README.md", "docs/start.md"])
def test_a_page_that_starts_and_ends_a_lab(page: str, tmp_path: Path) -> None:
    try:
        with PageShell(tmp_path, environment_of(tmp_path)) as shell:
            shell.follow(page, parse((ROOT / page).read_text("utf-8")))
    finally:
        lab_of(tmp_path).stop("--delete")


@pytest.mark.parametrize("page", [*TUTORIALS, *HOW_TO], ids=lambda page: page.stem)
def test_every_command_of_a_tutorial_prints_what_the_page_shows(
    page: Path, reader: dict[str, str], tmp_path: Path
) -> None:
    with PageShell(tmp_path, reader) as shell:
        assert shell.run('eval "$(bridgehead env)"') == ("", 0)
        shell.follow(page.name, parse(page.read_text("utf-8")))
        # Pods of a deleted Deployment end later, as do owned objects of others.
        eventually(
            lambda: shell.run("kubectl get all --no-headers -o name")[0] == "service/kubernetes\n",
            message="the page does not delete all that it made",
        )
