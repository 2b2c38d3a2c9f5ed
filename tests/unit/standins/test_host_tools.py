"""Directories of the host's programs for stand-ins."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import msgspec
import pytest

from bridgehead.kubelet.runtimes.runtime import ContainerSpec, Image, Security
from bridgehead.kubelet.runtimes.service.container_plan import plan_prompt
from bridgehead.standins.host_tools import HostTools, prepare_tools
from bridgehead.standins.table import STAND_INS

IMAGE = Image(name="busybox", id="x", source="stand-in", entrypoint=(), command=("sh",))


def make_program(directory: Path, name: str, script: str = "") -> None:
    directory.mkdir(exist_ok=True)
    (directory / name).write_text(f"#!/bin/sh\n{script}\n")
    (directory / name).chmod(0o755)


def test_links_lead_to_busybox(tmp_path: Path) -> None:
    programs, root = tmp_path / "bin", str(tmp_path)
    make_program(
        programs, "busybox", '[ "$1" != sh ] || exit 127; echo sh; echo ping; echo nslookup; echo wget; echo -T'
    )
    for name in ("curl", "dig", "host", "ip", "nslookup", "ss", "tcpdump", "ping"):
        make_program(programs, name)
    for _ in range(2):  # a restarted runtime finds the directories
        tools = prepare_tools(root, str(programs))
        assert tools == HostTools(
            busybox=f"{root}/busybox",
            network=f"{root}/network-tools",
            program=str(programs / "busybox"),
            shell=os.path.realpath("/bin/sh"),
        )
        os.symlink("nowhere", f"{tools.busybox}/ping.new")  # of a runtime that was killed; the next one replaces it
    os.unlink(f"{tools.busybox}/ping.new")
    assert sorted(os.listdir(tools.busybox)) == ["-T", "nslookup", "ping", "sh", "wget"]
    assert all(os.path.islink(f"{tools.busybox}/{name}") for name in ("ping", "wget"))  # not built in
    assert sorted(os.listdir(tools.network)) == ["ping", "wget"]
    assert os.readlink(f"{tools.busybox}/ping") == str(programs / "busybox")


def test_missing_programs_name_their_packages(tmp_path: Path) -> None:
    make_program(tmp_path / "bin", "curl")
    tools = prepare_tools(str(tmp_path), str(tmp_path / "bin"))
    assert not os.path.exists(f"{tools.lacking}/curl")
    for name, package in (("dig", "bind9-dnsutils"), ("telnet", "busybox")):
        done = subprocess.run([f"{tools.lacking}/{name}", "web"], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (
            127,
            f"{name}: this stand-in has it only if the machine does (Debian: apt-get install {package})\n",
        )


def test_wget_has_a_timeout_where_busybox_was_built_without(tmp_path: Path) -> None:
    """The double ends by its parent's timeout when it is asked for /slow, and prints its arguments otherwise."""
    script = """case "$1 $2" in
      "--list ") echo wget ;;
      "wget --help") echo "Usage: wget URL" ;;
      timeout*) shift 4; "$@" ;;
      *slow) exit 141 ;;
      *) echo "$@" ;;
    esac"""
    make_program(tmp_path / "bin", "busybox", script)
    wget = f"{prepare_tools(str(tmp_path), str(tmp_path / 'bin')).network}/wget"

    def run(*argv: str) -> tuple[int, str]:
        done = subprocess.run([wget, *argv], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    for timeout in (["-T", "2"], ["-T2"], ["--timeout=2"], ["--timeout", "2"], []):
        assert run("-qO-", *timeout, "a b") == (0, "wget -qO- a b\n")
    assert run("-T", "1", "slow") == (1, "wget: download timed out\n")


STANDALONE = """
case "$1 $2" in
  "--list ") echo ash; echo nslookup; echo sh; echo wget ;;
  "sh -c") echo b ;;
  *) echo -T ;;
esac
exit
"""
APPLETS = "\0ash\0nsenter\0nslookup\0nuke\0sh\0wc\0wget\0which\0"


def test_a_shell_that_prefers_applets_is_a_copy_with_other_names_for_those_that_are_replaced(tmp_path: Path) -> None:
    make_program(tmp_path / "bin", "busybox", STANDALONE + APPLETS)
    for _ in range(2):  # a restarted runtime finds the directories
        tools = prepare_tools(str(tmp_path), str(tmp_path / "bin"))
        copy = Path(tools.program)
        assert copy == Path(tools.busybox) / "busybox-shell"
        assert copy.read_text().endswith("\0ash\0nsenter\0nslookuq\0nuke\0sh\0wc\0wgeu\0which\0\n")
        assert os.access(copy, os.X_OK)
    assert os.readlink(f"{tools.busybox}/sh") == os.readlink(f"{tools.busybox}/ash") == "busybox-shell"
    assert os.readlink(f"{tools.busybox}/nslookup") == str(tmp_path / "bin" / "busybox")


def test_a_busybox_that_fails_is_none(tmp_path: Path) -> None:
    make_program(tmp_path / "bin", "busybox", "exit 1")
    tools = prepare_tools(str(tmp_path), str(tmp_path / "bin"))
    assert tools.program == ""
    assert "nc" in os.listdir(tools.lacking)
    for directory in (tools.busybox, tools.network):
        assert sorted(os.listdir(directory)) == ["ping", "wget"]


def test_wget_and_ping_are_built_in_where_busybox_lacks_them(tmp_path: Path) -> None:
    """An installed BusyBox takes their places at the next start, and one that is gone leaves nothing."""
    programs = tmp_path / "bin"
    for applets, links in ((), []), (("sh", "ping"), ["ping"]), (("sh", "ping", "wget"), ["ping", "wget"]), ((), []):
        if applets:
            make_program(programs, "busybox", f'[ "$1" != sh ] || exit 127; echo {" ".join(applets)}; echo -T')
        else:
            (programs / "busybox").unlink(missing_ok=True)
        tools = prepare_tools(str(tmp_path), str(programs))
        for directory in (tools.busybox, tools.network):
            assert [name for name in ("ping", "wget") if os.path.islink(f"{directory}/{name}")] == links
            assert {"ping", "wget"} <= set(os.listdir(directory))
        assert not {"ping", "wget"} & set(os.listdir(tools.lacking))
    assert sorted(os.listdir(tools.busybox)) == ["ping", "wget"]
    for name in ("ping", "wget"):
        done = subprocess.run([f"{tools.busybox}/{name}"], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr.startswith(f"Usage: {name} [")) == (1, True)


@pytest.mark.parametrize(("user", "prompt"), [(None, "${PWD} # "), (0, "${PWD} # "), (1000, "${PWD} $ ")])
def test_the_hosts_shell_has_the_prompt_of_busybox(user: int | None, prompt: str) -> None:
    busybox, netshoot = (next(each for each in STAND_INS if each.name == name) for name in ("busybox", "netshoot"))
    spec = ContainerSpec(pod_uid="p", name="c", attempt=0, image=IMAGE, log_path="/l")
    spec = msgspec.structs.replace(spec, security=Security(user=user))
    assert plan_prompt(busybox, HostTools(), spec) == {"PS1": prompt}
    assert plan_prompt(busybox, HostTools(program="/bin/busybox"), spec) == {}
    assert plan_prompt(netshoot, HostTools(), spec) == {}
    assert plan_prompt(busybox, HostTools(), msgspec.structs.replace(spec, env={"PS1": "> "})) == {}
