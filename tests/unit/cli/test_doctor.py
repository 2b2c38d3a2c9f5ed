"""The command line of `bridgehead doctor`."""

from __future__ import annotations

import pytest

from bridgehead import cli
from bridgehead.cli.service_targets import parse_service_port
from tests.kubeconfigs import write_kubeconfig


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch, tmp_path):
    for name in ("KUBECONFIG", "BRIDGEHEAD_NAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def doctor(*arguments):
    with pytest.raises(SystemExit) as ended:
        cli.main(["doctor", *map(str, arguments)])
    return ended.value.code


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("web", ("web", 0)),
        ("service/web", ("web", 0)),
        ("svc/web:80", ("web", 80)),
        ("Services/web:65535", ("web", 65535)),
    ],
)
def test_targets(text, target):
    assert parse_service_port(text) == target


@pytest.mark.parametrize(
    "text", ["pod/web", "service/", "", "web:", "web:0", "web:65536", "web:x", "We b", "../web", "a/b/c"]
)
def test_only_services_are_accepted(text, capsys):
    assert doctor(text) == 2
    assert "is not service/NAME" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["-n", "a/b"], "is not the name of a namespace"),
        (["-A", "web"], "-A excludes"),
        (["-A", "-n", "shop"], "-A excludes"),
        (["--explain", "SelectorMispeled"], 'did you mean "SelectorMisspelled"'),
    ],
)
def test_a_wrong_command_line(arguments, error, capsys):
    assert doctor(*arguments) == 2
    output = capsys.readouterr()
    assert error in output.err
    assert output.err.count("\n") == 1
    assert not output.out


def test_a_cause_is_explained(capsys):
    assert doctor("--explain", "selectormisspelled") == 0
    assert capsys.readouterr().out.startswith("SelectorMisspelled: ")


def test_an_unreachable_server_is_reported(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr("bridgehead.client.transport.CONNECTION_RETRIES", 0)
    monkeypatch.setenv("KUBECONFIG", str(write_kubeconfig(tmp_path / "kubeconfig")))
    assert doctor("service", "web") == 1
    error = capsys.readouterr().err
    assert "http://127.0.0.1:1: " in error
    assert error.count("\n") == 1
