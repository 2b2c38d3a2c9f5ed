"""What the lab's commands say, and the command line around them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bridgehead import __version__, cli
from bridgehead.cli import lab_options, logs, status, up
from bridgehead.lab.addressing import IpFamily
from bridgehead.lab.plan import LabConfig, LabFiles


def run(*argv: str) -> int:
    with pytest.raises(SystemExit) as end:
        cli.main(list(argv))
    return end.value.code if isinstance(end.value.code, int) else 0


@pytest.mark.parametrize("argv", [(), ("--help",), ("-h",), ("help",)])
def test_help_names_every_command(argv: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*argv) == 0
    out = capsys.readouterr().out
    for name in cli.COMMANDS:
        assert f"\n  {name} " in out


@pytest.mark.parametrize("name", sorted(cli.COMMANDS))
def test_every_command_explains_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(name, "--help") == 0
    assert f"Usage: bridgehead {name}" in capsys.readouterr().out


@pytest.mark.parametrize("asked", [("help", "up"), ("--help", "up"), ("up", "-h")])
def test_help_for_one_command(asked: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*asked) == 0
    out = capsys.readouterr().out
    assert "Usage: bridgehead up [OPTIONS]" in out
    assert "--nodes N" in out
    assert "--state-dir PATH" in out


def test_help_for_a_command_that_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("help", "fly") == 2
    assert "no command 'fly'" in capsys.readouterr().err


def test_the_command_is_what_comes_after_the_options_of_exec(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("exec", "--help") == 0
    assert "Usage: bridgehead exec [OPTIONS] -- CMD...\n" in capsys.readouterr().out
    assert run("exec", "--nod", "node1", "--", "true") == 2
    assert "No such option: --nod" in capsys.readouterr().err


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--version") == 0
    assert capsys.readouterr().out == f"bridgehead {__version__}\n"


def test_an_unknown_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("fly") == 2
    assert capsys.readouterr().err == "bridgehead: no command 'fly'; `bridgehead --help` lists them\n"


def test_an_interrupt_while_a_command_loads(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(name: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_click_command", interrupted)
    assert run("up") == 130
    assert capsys.readouterr().err == ""


def test_a_wrong_option_is_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("up", "--nodes=0") == 2
    assert "--nodes" in capsys.readouterr().err


@pytest.mark.parametrize("argv", [("exec", "--", "true"), ("shell",), ("kubeconfig",), ("down",), ("status",)])
def test_without_a_lab(argv: tuple[str, ...], capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    command, *rest = argv
    assert run(command, f"--state-dir={tmp_path}", *rest) == 1
    err = capsys.readouterr().err
    assert err.startswith("bridgehead: no such lab is running; `bridgehead up` starts one")
    assert err.count("\n") == 1


def test_a_lab_that_is_stopped_is_not_stopped_again(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "bridgehead")])
    files = LabFiles(tmp_path / "lab")
    files.root.mkdir()
    files.config.touch()
    assert run("down", f"--state-dir={files.root}") == 1
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert f"`{tmp_path}/bridgehead down --state-dir {files.root} --delete` removes it" in err
    assert run("down", f"--state-dir={files.root}", "--delete") == 0
    assert "its state is gone" in capsys.readouterr().out
    assert not files.root.exists()


def test_no_lab_in_the_current_directory_by_accident(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "project").mkdir()
    assert run("up", "--state-dir", "") == 1
    assert f"{tmp_path} has something else in it (project)" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["project"]


@pytest.mark.parametrize("place", ["file/lab", "too-long" * 40])  # not even root can enter these
@pytest.mark.parametrize(
    "argv", [("up",), ("down",), ("down", "--delete"), ("status",), ("kubeconfig",), ("logs",), ("exec", "--", "true")]
)
def test_a_state_directory_that_cannot_be_looked_into(
    argv: tuple[str, ...], place: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    command, *rest = argv
    assert run(command, f"--state-dir={tmp_path}/{place}", *rest) == 1
    err = capsys.readouterr().err
    assert err.startswith("bridgehead: cannot ")
    assert f"{tmp_path}/{place}" in err
    assert err.count("\n") == 1


def test_columns_are_as_wide_as_they_must_be_and_end_with_nothing() -> None:
    long = "fd00:10::201, " * 10
    assert status.columns([("NODE", "ADDRESS", "LAST EXIT"), ("node1", long, "-"), ("n", "", "")]) == (
        f"NODE   {'ADDRESS':<140}  LAST EXIT\nnode1  {long}  -\nn\n"
    )


def test_own_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = tmp_path / "with space" / "bridgehead"
    script.parent.mkdir()
    script.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "argv", [str(script)])
    assert lab_options.own_command() == f"'{script}'"
    monkeypatch.chdir(tmp_path)
    assert lab_options.own_command() == "'with space/bridgehead'"
    monkeypatch.setenv("PATH", str(script.parent))
    assert lab_options.own_command() == "bridgehead"


@pytest.mark.parametrize(
    ("name", "state_dir", "options"),
    [
        ("bridgehead", None, ""),
        ("two", None, " --name two"),
        ("two", Path("/a b"), " --name two --state-dir '/a b'"),
        ("bridgehead", Path("rel"), " --state-dir rel"),
    ],
)
def test_options_of(name: str, state_dir: Path | None, options: str) -> None:
    assert lab_options.options_of(name, state_dir) == options


def closing_screen(nodes: int, *, detached: bool, ip_family: IpFamily = "dual") -> str:
    config = LabConfig(name="two", nodes=nodes, port=6444, ip_family=ip_family)
    return up._closing_screen(config, LabFiles(Path("/state of/two")), " --name two", 2.345, detached)


def test_closing_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [".venv/bin/bridgehead"])
    monkeypatch.setenv("PATH", "")
    screen = closing_screen(1, detached=True)
    assert 'The lab "two" is ready after 2.3 s: 1 node, the API at https://127.0.0.1:6444.' in screen
    assert "export KUBECONFIG='/state of/two/kubeconfig'\n" in screen
    assert ".venv/bin/bridgehead exec --name two -- curl" in screen
    assert "Stop it with: .venv/bin/bridgehead down --name two\n" in screen
    assert "Try next (with a kubectl, which is missing here; Debian: kubernetes-client):\n" in screen
    assert "3 nodes" in closing_screen(3, detached=False)
    assert "Ctrl-C stops it." in closing_screen(3, detached=False)


def test_an_address_of_ipv6_has_its_brackets() -> None:
    address = "$(kubectl get service web -o jsonpath={.spec.clusterIP})"
    assert f"curl -s http://{address}\n" in closing_screen(3, detached=True)
    assert f'curl -s "http://[{address}]"\n' in closing_screen(3, detached=True, ip_family="ipv6")


@pytest.mark.parametrize(
    ("tail", "expected"),
    [(0, "a: 1\na: 2\nb: 3\n"), (1, "a: 2\n"), (2, "a: 1\na: 2\nb: 3\n"), (9, "a: 1\na: 2\nb: 3\n")],
)
def test_follow_ends_with_the_last_whole_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], tail: int, expected: str
) -> None:
    first, second = tmp_path / "a.log", tmp_path / "b.log"
    first.write_text("1\n2\n")
    second.write_text("3\nhal")
    logs.follow([first, second], until=lambda: True, tail=tail)
    assert capsys.readouterr().out == expected


def test_follow_goes_on_as_more_comes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "a.log"
    log.write_text("1\n2")
    looks = iter((False, True))

    def until() -> bool:
        ended = next(looks)
        if ended:
            with log.open("a") as file:
                file.write("2\n3\n")
        return ended

    logs.follow([log], until=until)
    assert capsys.readouterr().out == "1\n22\n3\n"
