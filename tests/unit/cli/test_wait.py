"""The command line of `bridgehead wait`."""

from __future__ import annotations

import pytest

from bridgehead import cli
from tests.kubeconfigs import write_kubeconfig


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch, tmp_path):
    for name in ("KUBECONFIG", "BRIDGEHEAD_NAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def wait(*arguments):
    with pytest.raises(SystemExit) as ended:
        cli.main(["wait", *map(str, arguments)])
    return ended.value.code


@pytest.mark.parametrize("target", ["pod/web", "service/", "", "deployment/x/y", "service/we b", "../web"])
def test_only_services_are_accepted(target, capsys):
    assert wait(target) == 2
    assert "is not service/NAME" in capsys.readouterr().err


def test_an_invalid_namespace_is_refused(capsys):
    assert wait("web", "-n", "a/b") == 2
    assert "'a/b' is not the name of a namespace" in capsys.readouterr().err


def test_a_timeout_needs_a_unit(capsys):
    assert wait("web", "--timeout=30") == 2
    assert "not a duration" in capsys.readouterr().err


@pytest.mark.parametrize("named", [False, True])
def test_without_a_kubeconfig_the_labs_is_used(named, capsys, monkeypatch, tmp_path):
    if named:  # a lab that is named goes before the environment
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    assert wait("svc/web", *(["--name", "nobody"] if named else [])) == 1
    assert "there is no lab" in capsys.readouterr().err


def test_a_missing_kubeconfig_is_reported(capsys, tmp_path):
    assert wait("services/web", "--kubeconfig", tmp_path / "none") == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_an_unreachable_server_is_reported(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr("bridgehead.client.transport.CONNECTION_RETRIES", 0)
    monkeypatch.setenv("KUBECONFIG", str(write_kubeconfig(tmp_path / "kubeconfig")))
    assert wait("web") == 1
    assert "http://127.0.0.1:1: " in capsys.readouterr().err


def test_several_kubeconfigs_are_refused_with_advice(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/a:{tmp_path}/b")
    assert wait("services/web") == 1
    assert capsys.readouterr().err == (
        f"bridgehead: {tmp_path}/a:{tmp_path}/b names several files, which kubectl merges:"
        " name one of them with --kubeconfig\n"
    )
