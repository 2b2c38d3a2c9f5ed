"""Output of the lab's commands, and their command line."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from bridgehead import __version__, cli
from bridgehead.cli import lab_options, logs, tables, up
from bridgehead.lab import state_directories
from bridgehead.lab.addressing import IpFamily
from bridgehead.lab.errors import Unsupported
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
def test_every_command_has_a_description(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(name, "--help") == 0
    assert f"Usage: bridgehead {name}" in capsys.readouterr().out


@pytest.mark.parametrize("asked", [("help", "up"), ("--help", "up"), ("up", "-h")])
def test_help_for_one_command(asked: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*asked) == 0
    out = capsys.readouterr().out
    assert "Usage: bridgehead up [OPTIONS]" in out
    assert "--nodes N" in out
    assert "--state-dir PATH" in out


def test_help_for_an_unknown_command_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("help", "fly") == 2
    assert "unknown command 'fly'" in capsys.readouterr().err


def test_exec_takes_the_command_after_its_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("exec", "--help") == 0
    assert "Usage: bridgehead exec [OPTIONS] -- CMD...\n" in capsys.readouterr().out
    assert run("exec", "--nod", "node1", "--", "true") == 2
    assert "No such option: --nod" in capsys.readouterr().err


@pytest.mark.parametrize("argument", ["--version", "version"])
def test_version_is_printed(argument: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(argument) == 0
    assert capsys.readouterr().out == f"bridgehead {__version__}\n"


def test_an_unknown_command_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("fly") == 2
    assert capsys.readouterr().err == "bridgehead: unknown command 'fly'; `bridgehead --help` lists the commands\n"


@pytest.mark.parametrize(("typed", "meant"), [("statsu", "status"), ("Up", "up"), ("kubconfig", "kubeconfig")])
def test_a_misspelled_command_gets_a_suggestion(typed: str, meant: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(typed) == 2
    assert capsys.readouterr().err == f'bridgehead: unknown command {typed!r}; did you mean "{meant}"?\n'


@pytest.mark.parametrize(
    ("arguments", "mistake"),
    [
        (("list", "nginx"), "`list` takes no names"),
        (("pull",), "`pull` needs the name of an image"),
        (("load", "--tag", "app:1"), "`load` needs a file"),
        (("save", "nginx"), "`save` needs --output FILE"),
        (("build", "."), "`build` needs the image's name: --tag NAME"),
        (("build", "--tag", "app:1", "a", "b"), "`build` takes one directory"),
    ],
)
def test_a_wrong_command_line_of_image(
    arguments: tuple[str, ...], mistake: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("image", *arguments) == 2
    assert capsys.readouterr().err == f"bridgehead image: {mistake}\n"


@pytest.mark.parametrize(
    "argv",
    [
        *(("up",), ("down",), ("status",), ("kubeconfig", "--path"), ("exec", "--", "true"), ("logs",), ("shell",)),
        *(("image", "list"), ("backup", "file"), ("restore", "file"), ("balancer", "status"), ("wait", "service/web")),
    ],
    ids=lambda argv: argv[0],
)
def test_a_state_directory_that_cannot_be_read_is_reported_in_one_line(
    argv: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    assert run(argv[0], "--state-dir", str(tmp_path / ("x" * 300)), *argv[1:]) == 1
    error = capsys.readouterr().err
    assert (error.count("\n"), "File name too long" in error) == (1, True), error


def test_a_stopped_lab_keeps_its_kubeconfig(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    files = LabFiles(tmp_path / "lab")
    files.root.mkdir()
    files.config.touch()
    files.kubeconfig.touch()
    assert run("kubeconfig", "--path", f"--state-dir={files.root}") == 0
    assert capsys.readouterr().out == f"{files.kubeconfig}\n"


def test_stopped_labs_are_listed_with_the_command_that_starts_them(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    for name in ("bridgehead", "other"):
        (tmp_path / "bridgehead" / name).mkdir(parents=True)
        LabFiles(tmp_path / "bridgehead" / name).config.touch()
    assert run("status") == 1
    out = capsys.readouterr().out.splitlines()
    assert [line.split("`")[0] for line in out] == ['Lab "bridgehead": stopped, ', 'Lab "other": stopped, ']
    assert out[1].endswith(" up --name other` starts it")


def test_a_refused_up_leaves_no_directory(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(root: Path, *, has_host_access: bool) -> None:
        raise Unsupported("this kernel has no namespaces")

    monkeypatch.setattr("bridgehead.lab.preflight.check_host", refuse)
    assert run("up", f"--state-dir={tmp_path / 'lab'}") == 3
    assert "this kernel has no namespaces" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ("kube-proxy", "kubectl -n kube-system logs daemonset/kube-proxy"),
        ("dns", "kubectl -n kube-system logs deployment/coredns"),
        ("apisever", 'did you mean "apiserver"?'),
        ("fly", "there are: apiserver, init"),
    ],
)
def test_logs_of_an_unknown_part_are_an_error(
    part: str, expected: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    files = LabFiles(tmp_path / "lab")
    for name in ("init", "apiserver"):
        files.log(name).parent.mkdir(parents=True, exist_ok=True)
        files.log(name).touch()
    assert run("logs", part, f"--state-dir={files.root}") == 1
    assert expected in capsys.readouterr().err


def test_logs_of_the_same_part_of_all_nodes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    files = LabFiles(tmp_path / "lab")
    files.log("init").parent.mkdir(parents=True)
    for name in ("init", "kubelet-node1", "kubelet-node2", "runtime-node1"):
        files.log(name).write_text("ready\n")
    assert run("logs", "kubelet", f"--state-dir={files.root}") == 0
    assert capsys.readouterr().out == "kubelet-node1: ready\nkubelet-node2: ready\n"


def test_an_interrupt_while_a_command_is_imported_exits_quietly(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(name: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "load_command", interrupted)
    assert run("up") == 130
    assert capsys.readouterr().err == ""


def test_an_invalid_option_exits_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("up", "--nodes=0") == 2
    assert "--nodes" in capsys.readouterr().err


@pytest.mark.parametrize("argv", [("exec", "--", "true"), ("shell",), ("kubeconfig",), ("down",), ("status",)])
def test_commands_report_a_missing_lab(
    argv: tuple[str, ...], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    command, *rest = argv
    assert run(command, f"--state-dir={tmp_path}", *rest) == 1
    err = capsys.readouterr().err
    assert err.startswith(f"bridgehead: there is no lab in {tmp_path}; `bridgehead up`")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "argv",
    [
        *(("kubeconfig",), ("logs",), ("exec", "--", "true"), ("shell",), ("down",), ("image", "list")),
        *(("backup", "copy"), ("restore", "copy"), ("wait", "service/web"), ("balancer", "status")),
    ],
)
def test_a_command_names_its_lab_if_none_was_chosen_and_another_one_runs(
    argv: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setattr(
        state_directories, "list_running", lambda: {"other": LabFiles(tmp_path / "bridgehead" / "other")}
    )
    choice = "--name or BRIDGEHEAD_NAME chooses another one that runs: other"
    taken = f'bridgehead: this is for the lab "bridgehead"; {choice}'
    assert run(*argv) == 1
    assert capsys.readouterr().err.splitlines()[0] == taken
    command, *rest = argv
    for chosen in ("--name=bridgehead", f"--state-dir={tmp_path}"):
        assert run(command, chosen, *rest) == 1
        assert taken not in capsys.readouterr().err
    monkeypatch.setenv("BRIDGEHEAD_NAME", "bridgehead")
    assert run(*argv) == 1
    assert taken not in capsys.readouterr().err


@pytest.mark.parametrize(("command", "options"), [("kubeconfig", ["--path"]), ("status", []), ("logs", [])])
@pytest.mark.parametrize(
    ("labs", "name", "expected"),
    [
        ((), "web", 'no lab "web"; there are none yet; `bridgehead up --name web` starts it'),
        (("blue", "green"), "web", 'no lab "web"; the labs are: blue, green; `bridgehead up --name web` starts it'),
        (("blue", "green"), "gren", 'no lab "gren"; the labs are: blue, green; did you mean "green"?'),
        (("blue",), "bridgehead", 'no lab "bridgehead"; the labs are: blue; `bridgehead up` starts it'),
    ],
)
def test_commands_list_the_labs_if_the_named_one_does_not_exist(
    command: str,
    options: list[str],
    labs: tuple[str, ...],
    name: str,
    expected: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    for lab in labs:
        files = LabFiles(tmp_path / "bridgehead" / lab)
        files.root.mkdir(parents=True)
        files.config.touch()
    assert run(command, f"--name={name}", *options) == 1
    assert capsys.readouterr().err == f"bridgehead: there is {expected}\n"


@pytest.mark.parametrize("name", sorted(cli.COMMANDS))
@pytest.mark.parametrize("width", [80, 120])
def test_help_breaks_no_option_or_default(
    name: str, width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    assert run(name, "--help") == 0
    text = capsys.readouterr().out
    assert text.isascii(), "the characters that keep words together are replaced"
    lines = [line for line in text.splitlines() if not line.startswith("      bridgehead ")]  # commands are not wrapped
    assert [line for line in lines if len(line) > width or line.endswith("-")] == []
    assert [line for line in lines if line.endswith(("[default:", "[env var:"))] == []
    shown = [param for param in cli.load_command(name).params if param.param_type_name == "option" and not param.hidden]
    assert {word for param in shown for word in param.help.split()} <= set(text.split())


def test_down_reports_a_stopped_lab(
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


def test_the_current_directory_is_never_taken_for_a_lab(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "project").mkdir()
    assert run("up", "--state-dir", "") == 1
    assert f"{tmp_path} has something else in it (project)" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["project"]


@pytest.mark.parametrize("path", ["file/lab", "too-long" * 40])  # not even root can enter these
@pytest.mark.parametrize(
    "argv", [("up",), ("down",), ("down", "--delete"), ("status",), ("kubeconfig",), ("logs",), ("exec", "--", "true")]
)
def test_an_unreadable_state_directory_is_reported(
    argv: tuple[str, ...], path: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    command, *rest = argv
    assert run(command, f"--state-dir={tmp_path}/{path}", *rest) == 1
    err = capsys.readouterr().err
    assert err.startswith("bridgehead: cannot ")
    assert f"{tmp_path}/{path}" in err
    assert err.count("\n") == 1


def test_columns_are_as_wide_as_needed_without_trailing_spaces() -> None:
    long = "fd00:10::201, " * 10
    assert tables.columns([("NODE", "ADDRESS", "LAST EXIT"), ("node1", long, "-"), ("n", "", "")]) == (
        f"NODE   {'ADDRESS':<140}  LAST EXIT\nnode1  {long}  -\nn\n"
    )


def test_printed_commands_repeat_how_the_program_was_called(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
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
def test_printed_options_repeat_name_and_state_directory(name: str, state_dir: Path | None, options: str) -> None:
    assert lab_options.options_of(name, state_dir) == options


def closing_screen(nodes: int, *, detached: bool, ip_family: IpFamily = "dual", page: str = "") -> str:
    config = LabConfig(name="two", nodes=nodes, port=6444, ip_family=ip_family)
    return up._closing_screen(config, " --name two", 2.345, detached, ["", "Pods lack something."], page)


def test_the_closing_screen_lists_the_next_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [".venv/bin/bridgehead"])
    monkeypatch.setenv("PATH", "")
    screen = closing_screen(1, detached=True)
    assert 'The lab "two" is ready after 2.3 s: 1 node, the API at https://127.0.0.1:6444.' in screen
    assert 'eval "$(.venv/bin/bridgehead env --name two)"\n' in screen
    assert ".venv/bin/bridgehead exec --name two -- curl" in screen
    assert "If a Service does not work: .venv/bin/bridgehead doctor --name two\n" in screen
    assert "Stop it with: .venv/bin/bridgehead down --name two\n" in screen
    assert "Try next (with a kubectl, which is missing here; Debian: kubernetes-client):\n" in screen
    assert screen.endswith("\nPods lack something.\n")
    assert "3 nodes" in closing_screen(3, detached=False)
    assert "Ctrl-C stops it." in closing_screen(3, detached=False)
    page = "The dashboard is at http://127.0.0.1:6480/#token=x"
    assert f"6444.\n{page}\n\nTry next" in closing_screen(3, detached=True, page=page)


def test_an_ipv6_address_has_brackets_in_a_url() -> None:
    address = "$(kubectl get service web -o jsonpath={.spec.clusterIP})"
    assert f"curl -s http://{address}\n" in closing_screen(3, detached=True)
    assert f'curl -s "http://[{address}]"\n' in closing_screen(3, detached=True, ip_family="ipv6")


@pytest.mark.needs("bash", "fish")
@pytest.mark.parametrize(
    ("shell", "evaluation"),
    [("bash", 'eval "$(cat {})"'), ("bash", "eval $(cat {})"), ("sh", "eval $(cat {})"), ("fish", "source {}")],
)
def test_a_shell_takes_the_environment_of_a_lab(
    shell: str, evaluation: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "user's \\state"))
    files = state_directories.find_files("two", None)
    files.root.mkdir(parents=True)
    files.config.write_bytes(msgspec.json.encode(LabConfig(name="two", nodes=1, port=6443)))
    files.kubeconfig.touch()
    program = tmp_path / "programs" / "bridgehead"
    monkeypatch.setattr(sys, "argv", [str(program)])
    assert run("env", "--name=two", f"--shell={'fish' if shell == 'fish' else 'sh'}") == 0
    script = tmp_path / "script"
    script.write_text(capsys.readouterr().out)
    shown = "; ".join(
        [evaluation.format(script), *(f'echo "${name}"' for name in ("KUBECONFIG", "BRIDGEHEAD_NAME", "PATH"))]
    )
    done = subprocess.run([shell, "-c", shown], capture_output=True, text=True, timeout=30)
    kubeconfig, name, path = done.stdout.splitlines()
    assert (kubeconfig, name, done.stderr) == (str(files.kubeconfig), "two", "")
    assert re.split("[ :]", path)[0] == str(program.parent)
    assert len(re.split("[ :]", path)) > 1


def test_the_environment_of_a_lab_elsewhere_has_no_name(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """BRIDGEHEAD_NAME means a lab in the default directory. The name of another lab is removed."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "default"))
    monkeypatch.delenv("BRIDGEHEAD_NAME", raising=False)
    (tmp_path / "kubeconfig").touch()
    assert run("env", f"--state-dir={tmp_path}") == 0
    assert capsys.readouterr().out == f"export KUBECONFIG={tmp_path}/kubeconfig;\n"
    monkeypatch.setenv("BRIDGEHEAD_NAME", "two")
    assert run("env", f"--state-dir={tmp_path}") == 0
    assert capsys.readouterr().out == f"export KUBECONFIG={tmp_path}/kubeconfig;\nunset BRIDGEHEAD_NAME;\n"
    assert run("env", f"--state-dir={tmp_path}", "--shell=fish") == 0
    assert capsys.readouterr().out == f"set -gx KUBECONFIG '{tmp_path}/kubeconfig';\nset -e BRIDGEHEAD_NAME;\n"


@pytest.mark.parametrize(
    ("tail", "expected"),
    [(0, "a: 1\na: 2\nb: 3\n"), (1, "a: 2\n"), (2, "a: 1\na: 2\nb: 3\n"), (9, "a: 1\na: 2\nb: 3\n")],
)
def test_follow_ends_with_the_last_complete_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], tail: int, expected: str
) -> None:
    first, second = tmp_path / "a.log", tmp_path / "b.log"
    first.write_text("1\n2\n")
    second.write_text("3\nhal")
    logs.follow([first, second], until=lambda: True, tail=tail)
    assert capsys.readouterr().out == expected


def test_follow_continues_with_new_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
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
