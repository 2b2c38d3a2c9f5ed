"""The example of docs/recipes/add-a-command.md, run as a command."""

import sys

import pytest

from bridgehead import cli
from tests.unit.recipes import example_of


def test_the_example_of_the_recipe_runs(monkeypatch, tmp_path, capsys):
    assert "images" not in cli.COMMANDS
    monkeypatch.setitem(sys.modules, "bridgehead.cli.images", example_of("add-a-command.md"))
    monkeypatch.setitem(cli.COMMANDS, "images", ("Cluster on this machine", "Print the directory of the image store."))
    monkeypatch.setattr(cli, "load_command", cli.load_command.__wrapped__)  # without its cache

    def run(*arguments: str) -> str:
        with pytest.raises(SystemExit) as end:
            cli.main(["images", *arguments])
        assert not end.value.code
        return capsys.readouterr().out

    assert run("--state-dir", str(tmp_path)) == f"{tmp_path.resolve()}/images\n"
    assert "Print the directory of a cluster's image store." in run("--help")
