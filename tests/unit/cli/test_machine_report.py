"""`bridgehead doctor --machine`: its text, its JSON and its exit codes."""

from __future__ import annotations

import json

import pytest

from bridgehead import cli
from bridgehead.cli.machine_report import is_fit, render_json, render_text
from bridgehead.lab import machine_checks
from bridgehead.lab.machine_checks import Requirement

FINE = Requirement("kubectl")
LIMITED = Requirement("mode ipvs", "this kernel has no IPVS", "modprobe ip_vs", "the proxy uses iptables")
MISSING = Requirement("namespaces and nftables", "the command `nft` is missing", "install it", is_needed=True)


def test_a_machine_that_has_all():
    assert render_text([FINE]) == "ok       kubectl\n\nA lab can run on this machine.\n"
    assert is_fit([FINE])


def test_a_machine_with_a_limitation():
    assert render_text([FINE, LIMITED]).splitlines() == [
        "ok       kubectl",
        "limited  mode ipvs: this kernel has no IPVS",
        "         Effect: the proxy uses iptables",
        "         Fix: modprobe ip_vs",
        "",
        "A lab can run on this machine, with 1 limitation.",
    ]
    assert is_fit([FINE, LIMITED])


def test_a_machine_without_a_requirement():
    text = render_text([MISSING, LIMITED])
    assert text.startswith("missing  namespaces and nftables: the command `nft` is missing\n         Fix: install it\n")
    assert text.endswith("\nA lab cannot run on this machine.\n")
    document = json.loads(render_json([MISSING, LIMITED]))
    assert document["fit"] is False
    assert [each["state"] for each in document["requirements"]] == ["missing", "limited"]


@pytest.mark.parametrize(("found", "code"), [([FINE, LIMITED], 0), ([FINE, MISSING], 1)])
def test_the_command(monkeypatch, capsys, tmp_path, found, code):
    roots = []

    def examine(root):
        roots.append(root)
        return iter(found)

    monkeypatch.setattr(machine_checks, "examine_machine", examine)
    with pytest.raises(SystemExit) as ended:
        cli.main(["doctor", "--machine", "-o", "json", "--state-dir", str(tmp_path / "lab")])
    assert (ended.value.code or 0) == code
    assert roots == [tmp_path / "lab"]
    assert json.loads(capsys.readouterr().out)["fit"] is (code == 0)


@pytest.mark.parametrize("arguments", [["service/web"], ["-n", "shop"], ["-A"], ["-o", "yaml"]])
def test_a_wrong_command_line(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["doctor", "--machine", *arguments])
    assert ended.value.code == 2
    assert capsys.readouterr().err
