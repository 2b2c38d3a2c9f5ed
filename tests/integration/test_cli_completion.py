"""Completion scripts, read by the shells that they are for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from bridgehead import cli
from bridgehead.lab import state_directories
from bridgehead.lab.plan import LabConfig

pytestmark = pytest.mark.integration


def script(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as end:
        cli.main(["completion", shell])
    assert not end.value.code
    return capsys.readouterr().out


@pytest.mark.needs("bash")
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["sta"], {"status"}),
        (["completion", ""], {"bash", "zsh", "fish", "--help", "-h"}),
        (["up", "--ip-family", ""], {"ipv4", "ipv6", "dual"}),
        (["up", "--ip-family", "ip"], {"ipv4", "ipv6"}),
        (["down", "--del"], {"--delete"}),
        (["help", "k"], {"kubeconfig", "kubelet"}),
        (["proxy", "--masq"], {"--masquerade-all", "--masquerade-bit"}),
    ],
)
def test_bash_completes_commands_options_and_values(
    arguments: list[str], expected: set[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bridgehead"
    path.write_text(script("bash", capsys))
    line = " ".join(f'"{word}"' for word in ["bridgehead", *arguments])
    completed = f'COMP_WORDS=({line}); COMP_CWORD={len(arguments)}; _bridgehead; echo "${{COMPREPLY[@]}}"'
    program = f'source "{path}"; {completed}'
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, timeout=30)
    assert done.stderr == ""
    assert set(done.stdout.split()) == expected


@pytest.mark.needs("bash")
def test_bash_completes_files_after_an_option_with_a_path(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "script").write_text(script("bash", capsys))
    (tmp_path / "config.yaml").touch()
    arguments = 'COMP_WORDS=(bridgehead proxy --config "conf"); COMP_CWORD=3'
    program = f'source ./script; {arguments}; _bridgehead; echo "${{COMPREPLY[@]}}"'
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, timeout=30, cwd=tmp_path)
    assert done.stdout == "config.yaml\n"


@pytest.mark.needs("zsh")
def test_zsh_loads_its_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "_bridgehead").write_text(script("zsh", capsys))
    program = (
        "autoload -Uz compinit; compinit -u -D; source ./_bridgehead; whence -w _bridgehead; echo $_comps[bridgehead]"
    )
    done = subprocess.run(["zsh", "-f", "-c", program], capture_output=True, text=True, timeout=30, cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("_bridgehead: function\n_bridgehead\n", "")


@pytest.mark.needs("fish")
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("bridgehead sta", {"status"}),
        ("bridgehead up --ip-family ", {"dual", "ipv4", "ipv6"}),
        ("bridgehead completion ", {"bash", "zsh", "fish"}),
        ("bridgehead down --del", {"--delete"}),
    ],
)
def test_fish_completes_commands_and_options(
    line: str, expected: set[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "script.fish").write_text(script("fish", capsys))
    program = f"source ./script.fish; complete --do-complete '{line}'"
    done = subprocess.run(
        ["fish", "--no-config", "-c", program], capture_output=True, text=True, timeout=30, cwd=tmp_path
    )
    assert {each.split("\t")[0] for each in done.stdout.splitlines()} == expected


@pytest.fixture
def labs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two labs with state, and a program `bridgehead` in the directory that is returned."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    for lab, nodes in (("bridgehead", 1), ("blue", 2)):
        files = state_directories.find_files(lab, None)
        files.log("init").parent.mkdir(parents=True)
        files.config.write_bytes(msgspec.json.encode(LabConfig(name=lab, nodes=nodes, port=6443)))
        for part in ("apiserver", "controllers"):
            files.log(part).touch()
    program = tmp_path / "bin" / "bridgehead"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\nfrom bridgehead import cli\ncli.main()\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    return program.parent


LIVE = [
    ("down --name ", {"blue", "bridgehead"}),
    ("exec --node ", {"node1"}),
    ("exec --name blue --node ", {"node1", "node2"}),
    ("shell --name blue n", {"node1", "node2"}),
    ("logs a", {"apiserver"}),
    ("wait service", set()),  # no API server
]


def completed_by_bash(typed: list[str], directory: Path, capsys: pytest.CaptureFixture[str]) -> set[str]:
    """The values that bash offers at the end of a line, with the script in a directory."""
    (directory / "script").write_text(script("bash", capsys))
    line = " ".join(f'"{word}"' for word in typed)
    program = (
        f'source ./script; COMP_WORDS=({line}); COMP_CWORD={len(typed) - 1}; _bridgehead; echo "${{COMPREPLY[@]}}"'
    )
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, timeout=30, cwd=directory)
    assert done.stderr == ""
    return set(done.stdout.split())


@pytest.mark.needs("bash")
@pytest.mark.parametrize(("typed", "expected"), LIVE)
@pytest.mark.usefixtures("labs")
def test_bash_completes_what_is_there_now(
    typed: str, expected: set[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert completed_by_bash(["bridgehead", *typed.split(" ")], tmp_path, capsys) == expected


@pytest.mark.needs("bash")
@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("exec --name = blue --node = ", {"node1", "node2"}),
        ("exec --name = blue --node =", {"node1", "node2"}),
        ("down --name = bl", {"blue"}),
        ("up --ip-family = d", {"dual"}),
    ],
)
@pytest.mark.usefixtures("labs")
def test_bash_completes_after_an_equals_sign(
    typed: str, expected: set[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert completed_by_bash(["bridgehead", *typed.split(" ")], tmp_path, capsys) == expected


@pytest.mark.needs("fish")
@pytest.mark.parametrize(("typed", "expected"), LIVE)
@pytest.mark.usefixtures("labs")
def test_fish_completes_what_is_there_now(
    typed: str, expected: set[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "script.fish").write_text(script("fish", capsys))
    program = f"source ./script.fish; complete --do-complete 'bridgehead {typed}'"
    done = subprocess.run(
        ["fish", "--no-config", "-c", program], capture_output=True, text=True, timeout=30, cwd=tmp_path
    )
    assert ({each.split("\t")[0] for each in done.stdout.splitlines()}, done.stderr) == (expected, "")


@pytest.mark.needs("zsh")
@pytest.mark.parametrize(
    ("typed", "shown"),
    [
        ("exec --name blue --node ", "node1 *node2"),
        ("shell --name blue ", "node1 *node2"),
        ("logs ", "apiserver *contr"),
    ],
)
@pytest.mark.usefixtures("labs")
def test_zsh_completes_what_is_there_now(
    typed: str, shown: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "_bridgehead").write_text(script("zsh", capsys))
    (tmp_path / "rc").write_text("autoload -Uz compinit; compinit -u -D; source ./_bridgehead; PS1=; print re''ady\n")
    # An interactive zsh on a pseudo-terminal; a read waits for its pattern.
    program = (
        "zmodload zsh/zpty; zpty shell zsh -f -i; zpty -w shell source ./rc; zpty -r shell first '*ready*';"
        f"zpty -w -n shell 'bridgehead {typed}'$'\\t\\t'; zpty -r shell listed '*{shown}*' && print -r listed"
    )
    done = subprocess.run(["zsh", "-f", "-c", program], capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("listed\n", "")


@pytest.mark.needs("bash")
def test_a_value_that_a_shell_would_run_is_not_offered(
    labs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logs = state_directories.find_files("bridgehead", None).log("init").parent
    for name in ("$(touch ran)", "`touch ran`", "-x", "a b", "a;touch ran"):
        (logs / f"{name}.log").touch()
    offered = completed_by_bash(["bridgehead", "logs", ""], tmp_path, capsys)
    assert {"apiserver", "controllers"} <= offered
    assert "touch" not in " ".join(offered)
    assert not (tmp_path / "ran").exists()
