"""The result of `up` for programs, and the options that a running lab may not be asked for."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bridgehead.cli import up, up_result
from bridgehead.lab.errors import AlreadyRunning, LabError, NotRunning, Unsupported
from bridgehead.lab.plan import LabConfig, LabFiles


def test_a_lab_is_one_object_on_one_line(tmp_path: Path) -> None:
    config = LabConfig(
        name="two", nodes=2, port=6444, ip_family="dual", publish=("8080:80/web.shop", "udp:53:30053"), balancer=False
    )
    text = up_result.render_lab(config, LabFiles(tmp_path), 2.34567, "")
    assert text.endswith("}\n")
    assert text.count("\n") == 1
    found = json.loads(text)
    assert found["kubeconfig"] == f"{tmp_path}/kubeconfig"
    assert (found["name"], found["context"], found["server"]) == ("two", config.context, "https://127.0.0.1:6444")
    assert found["nodes"][1] == {
        "name": "node2",
        "addresses": ["10.0.0.202", "fd00:10::202"],
        "podRanges": ["10.244.2.0/24", "fd00:10:244:2::/64"],
    }
    assert [(each["family"], each["loadBalancers"]) for each in found["ranges"]] == [("ipv4", None), ("ipv6", None)]
    web, dns = found["published"]
    assert (web["port"], web["service"], web["targetPort"]) == (8080, {"namespace": "shop", "name": "web"}, 80)
    assert (dns["protocol"], dns["service"], dns["targetPort"]) == ("UDP", None, 30053)
    assert (found["dashboard"], found["seconds"]) == (None, 2.346)


def test_the_documented_fields_are_those_of_a_lab(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "exit-codes.md").read_text("utf-8")
    shown = page[page.index("    {\n") :]
    example = json.loads(shown[: shown.index("\n    }\n") + 7])
    config = LabConfig(name="lab", nodes=1, port=6443, publish=("8080:80/web",))
    found = json.loads(up_result.render_lab(config, LabFiles(tmp_path), 1, ""))
    assert list(example) == list(found)
    for key in ("nodes", "ranges", "published"):
        assert list(example[key][0]) == list(found[key][0]), key


def test_an_error_is_one_object_with_the_users_own_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "bridgehead")])
    error = Unsupported("`bridgehead up` needs nft")
    assert json.loads(up_result.render_error(error)) == {
        "error": {"code": "Unsupported", "message": f"`{tmp_path}/bridgehead up` needs nft", "exitCode": 3}
    }
    assert json.loads(up_result.render_error(KeyboardInterrupt()))["error"]["exitCode"] == 130


RUNNING = LabConfig(name="lab", nodes=3, port=6443, ip_family="dual", balancer=True, publish=("8080:80/web",))


@pytest.mark.parametrize(
    ("options", "differing"),
    [
        (up.Options(), ""),
        (up.Options(nodes=3, port=6443, ip_family="dual", balancer=True, publish=["8080:80/web"], wait=True), ""),
        (up.Options(name="other"), ""),  # the state directory has been found already
        (up.Options(nodes=2), "with --nodes 3"),
        (up.Options(balancer=False), "with --balancer True"),
        (up.Options(ephemeral=True), "without --ephemeral"),
        (up.Options(node_dns=True), "without --node-dns"),
        (up.Options(publish=[""]), "with --publish 8080:80/web"),
        (up.Options(publish=["8080:80/web", "81:81"]), "with --publish 8080:80/web"),
        (up.Options(restore=Path("backup")), "and --restore is for a lab that starts"),
    ],
)
def test_options_that_differ_from_the_running_lab(options: up.Options, differing: str) -> None:
    assert up_result._differing(options, RUNNING) == differing


def wait_up(files: LabFiles, options: up.Options, again: str, wait_ready: Callable[[LabConfig], None]) -> LabConfig:
    return up_result.wait_running(files, options, options.wanted_ranges, again, wait_ready)


def test_a_lab_that_ended_while_another_command_waited_for_it(tmp_path: Path) -> None:
    with pytest.raises(NotRunning):
        wait_up(LabFiles(tmp_path), up.Options(wait=True), "", lambda config: None)


def test_the_running_lab_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = iter([NotRunning("it is only starting"), RUNNING])

    class Running:
        config = RUNNING

    def read_running(files: LabFiles) -> type[Running]:
        if isinstance(record := next(records), NotRunning):
            raise record
        return Running

    monkeypatch.setattr("bridgehead.lab.state_directories.is_running", lambda files: True)
    monkeypatch.setattr("bridgehead.lab.state_directories.read_running", read_running)
    waited: list[LabConfig] = []
    assert wait_up(LabFiles(tmp_path), up.Options(wait=True), "", waited.append) == RUNNING
    assert waited == [RUNNING]
    records = iter([RUNNING])
    with pytest.raises(LabError, match="--pod-cidr"):
        wait_up(LabFiles(tmp_path), up.Options(pod_cidr="10.77.0.0/16"), "", waited.append)
    records = iter([RUNNING])
    with pytest.raises(AlreadyRunning, match=r"with --nodes 3: .*`bridgehead down --name x`"):
        wait_up(LabFiles(tmp_path), up.Options(nodes=1), " --name x", waited.append)
    assert waited == [RUNNING]
