"""Rows of options, as the commands have them, and the example of docs/recipes/add-an-option.md."""

from __future__ import annotations

import re
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest

from bridgehead import cli
from bridgehead.cli.options import rows_of, spelled
from bridgehead.cli.proxy_options import Options
from bridgehead.proxy.config import DEFAULTS
from tests.unit.recipes import example_of

PROXYS_PAGE = Path(__file__).parents[3] / "src" / "bridgehead" / "proxy" / "README.md"


@pytest.fixture
def run(monkeypatch, capsys):
    """Run the recipe's command with arguments; return the exit code and the output."""
    monkeypatch.setitem(sys.modules, "bridgehead.cli.example", example_of("add-an-option.md"))
    monkeypatch.setitem(cli.COMMANDS, "example", ("Bridgehead itself", "Print what the options say."))
    monkeypatch.setattr(cli, "load_command", cli.load_command.__wrapped__)  # without its cache

    def run(*arguments: str) -> tuple[object, str, str]:
        with pytest.raises(SystemExit) as end:
            cli.main(["example", *arguments])
        return end.value.code, *capsys.readouterr()

    return run


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ((), "n /var/lib/kubelet 110 False []"),
        (("--max-pods=5", "--root-dir", "a/b", "--offline"), "n a/b 5 True []"),
        (("--offline=true", "--offline=false"), "n /var/lib/kubelet 110 False []"),
        (("--offline", "--online", "--trace", "-v", "2"), "n /var/lib/kubelet 110 False []"),
        (("--taint=a", "--taint=b"), "n /var/lib/kubelet 110 False ['a', 'b']"),
    ],
)
def test_the_example_of_the_recipe_runs(run, arguments: tuple[str, ...], line: str) -> None:
    assert run("--node-name=n", *arguments) == (0, f"{line}\n", "")


def test_an_option_has_a_value_from_the_environment(run, monkeypatch) -> None:
    monkeypatch.setenv("TAINT", "a b")
    assert run("--node-name=n") == (0, "n /var/lib/kubelet 110 False ['a', 'b']\n", "")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((), "Missing option '--node-name'."),
        (("--node-name=n", "--max-pods=501"), "501 is not in the range 0<=x<=500."),
        (("--node-name=n", "--max-pds=5"), 'No such option: --max-pds; did you mean "--max-pods"?'),
        (("--node-name=n", "--no-trace"), "No such option: --no-trace"),
    ],
)
def test_errors_name_the_option(run, arguments: tuple[str, ...], error: str) -> None:
    code, _, errors = run(*arguments)
    assert code == 2
    assert error in errors


def test_help_shows_the_groups_of_the_rows(run) -> None:
    _, text, _ = run("--help")
    assert re.findall(r"^(?:\w.*:$|  -\S+)", text, re.MULTILINE) == [
        "Node:", "  --node-name", "  --root-dir", "  --offline", "  --taint", "Pods:", "  --max-pods",
        "Options:", "  -v,", "  -h,",
    ]  # fmt: skip
    assert "--offline / --online" in text
    assert re.search(r"--root-dir PATH +Directory for volumes and logs\.", text)


def test_each_field_of_an_option_is_one_of_the_configuration() -> None:
    sections = {name: value for name, value in DEFAULTS.items() if isinstance(value, dict)}
    fields = {*DEFAULTS, *(f"{section}.{name}" for section, value in sections.items() for name in value)}
    without_default = {"enableProfiling", "logging.format", "showHiddenMetricsForVersion"}
    given = {re.sub("<.*>", "iptables", row.field) for row in rows_of(Options).values() if row.field}
    assert given - fields == without_default


def test_the_proxys_page_names_each_option() -> None:
    text = PROXYS_PAGE.read_text("utf-8").partition("## Modes")[0]
    named = {name.replace("_", "-") for name in re.findall(r"--?[a-z][\w*-]*", text)}
    assert [name for name in map(spelled, rows_of(Options)) if not any(fnmatch(name, each) for each in named)] == [
        "--verbosity"  # -v
    ]
