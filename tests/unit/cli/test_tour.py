"""The walk of `bridgehead tour`: orders, answers, what is skipped and what is removed, with a shell of the test."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from bridgehead.cli import tour_walk
from bridgehead.cli.tour import language_of
from bridgehead.cli.tour_walk import Result, Shell, Tour
from bridgehead.insight.tour.lesson import Language
from bridgehead.insight.tour.lessons import LESSONS
from bridgehead.lab.plan import LabConfig, LabFiles

CONFIG = LabConfig(name="lab", nodes=3, port=6443)


class FakeShell(Shell):
    """Answers every command with what its lesson expects, but those with a text of `answers` by that answer."""

    def __init__(self, **answers: Result) -> None:
        super().__init__()
        self.commands: list[str] = []
        self.answers: dict[str, Result | type[BaseException]] = {
            "get namespace tour": Result(1, "not found"),
            "config current-context": Result(0, CONFIG.context),
            "get service kubernetes": Result(0, "10.96.0.1"),
            **answers,
        }

    def run(self, command: str, *, stdin: str = "", seconds: float = 0) -> Result:
        self.commands.append(command)
        for text, answer in self.answers.items():
            if text in command:
                if isinstance(answer, Result):
                    return answer
                raise answer
        for lesson in LESSONS:
            for step in lesson.steps:
                shape = re.sub(r"@\w+@", ".*", re.sub(r"([^\w@ ])", r"\\\1", step.command))
                if re.fullmatch(shape, command):
                    is_repaired = command.endswith("http://broken") and self.ran("set selector")
                    return Result(int(step.fails and not is_repaired), OUTPUT)
        return Result(0, "10.0.0.9\n")

    def ran(self, text: str) -> bool:
        return any(text in command for command in self.commands)


# An output that all steps expect.
OUTPUT = """
web-1 10.244.1.1,10.244.1.2,10.244.1.3 web ClusterIP 10.96.0.9 web-abc  IPv4   80 app=debug refused
ServerName: a,
ServerName: a,
ServerName: a,
ServerName: a,
ClientIP: 10.0.0.1, tour/web tour/web-lb tour/web-node web-sticky web-local patched Local
endpointslice.discovery.k8s.io/outside-1 scaled web-node NodePort 10.96.0.8 80:30000/TCP
web.tour.svc.cluster.local search tour.svc WEB_SERVICE_HOST= ClientIP, 10800 s
web-local Local Cluster
mode: KUBE-SVC-A KUBE-SEP-A TCP  10.96.0.9:80 rr kube-ipvs0 10.96.0.9 . tcp . 80
web-headless ClusterIP None
Name: web-headless
Name: web-headless
no rule
alias ExternalName <none> web.tour
canonical name = web.tour.svc.cluster.local
web-lb exposed
web-lb LoadBalancer 10.96.0.7 10.0.0.10
broken exposed <unset> app=wbe app=web broken app=web
SelectorMatchesNothing selector updated
"""


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tour_walk, "WAIT_SECONDS", 0)
    monkeypatch.setattr(tour_walk, "POLL_SECONDS", 0)
    monkeypatch.setattr("shutil.which", lambda name, **_: f"/usr/bin/{name}")


def make(shell: FakeShell, *, asks: bool = False, language: Language = Language.ENGLISH, **config: Any) -> Tour:
    tour = Tour(language, asks=asks, shell=shell)
    tour.use_lab(LabFiles(Path("/lab")), CONFIG if not config else LabConfig(**{**_FIELDS, **config}), None)
    return tour


_FIELDS = {"name": "lab", "nodes": 3, "port": 6443}
ALL = range(1, len(LESSONS) + 1)


@pytest.mark.parametrize("language", list(Language))
def test_every_lesson_is_shown_and_the_namespace_is_deleted(language, capsys):
    shell = FakeShell()
    assert make(shell, language=language).run(ALL) == 0
    shown = capsys.readouterr().out
    for lesson in LESSONS:
        assert lesson.title.of(language) in shown
        assert lesson.question.text.of(language) not in shown, "no questions are asked"
    assert "Skipped" not in shown
    assert shell.ran("kubectl delete namespace tour")
    assert not shell.ran("bridgehead down")


def test_a_step_that_does_not_give_what_was_promised_is_shown_and_makes_the_exit_code_1(capsys):
    shell = FakeShell(**{"get endpointslices -l kubernetes.io/service-name=web": Result(0, "nothing")})
    assert make(shell).run([2]) == 1
    assert "not what the lesson promised" in capsys.readouterr().out
    assert shell.ran("delete namespace")


def test_what_the_cluster_lacks_is_skipped_and_named(capsys):
    shell = FakeShell(**{"hostIP}' | tr ' ' '\\n')\"": Result(0, "")})  # every node has a pod
    assert make(shell, balancer=False).run(ALL) == 0
    shown = capsys.readouterr().out
    assert shown.count("Skipped: a load balancer") == 3
    assert "- a node without a pod of `web`" in shown
    assert not shell.ran("balancer status")


def test_another_cluster_has_no_steps_in_the_network_of_nodes(capsys):
    shell = FakeShell(**{"config view": Result(0, "apiVersion: v1"), "loadBalancer.ingress[*]": Result(0, "")})
    tour = Tour(Language.ENGLISH, asks=False, shell=shell)
    tour.use_cluster(Path("/other"))
    assert tour.run(ALL) == 0
    assert not shell.ran("bridgehead exec")
    assert shell.environment["KUBECONFIG"] != "/other", "the file's current context may change meanwhile"
    assert "Skipped: commands in the network of nodes" in capsys.readouterr().out


def test_a_namespace_of_someone_else_is_left_alone(capsys):
    shell = FakeShell(**{"get namespace tour": Result(0, "")})
    with pytest.raises(SystemExit):
        make(shell).run([1])
    assert "which is not of a tour" in capsys.readouterr().err
    assert not shell.ran("delete namespace")


def test_the_namespace_of_a_killed_tour_is_replaced():
    shell = FakeShell(**{"get namespace tour": Result(0, "true")})
    make(shell).run([1])
    first = next(index for index, command in enumerate(shell.commands) if "delete namespace" in command)
    assert first < shell.commands.index("kubectl create -f -")


@pytest.mark.parametrize("error", [KeyboardInterrupt, BrokenPipeError, RuntimeError])
def test_whatever_happens_the_namespace_is_deleted(error):
    shell = FakeShell()
    shell.answers = {"get service web": error, **shell.answers}
    with pytest.raises(SystemExit if error is KeyboardInterrupt else error):
        make(shell).run([1])
    assert shell.ran("delete namespace")


def test_a_lab_that_the_tour_started_is_removed(capsys):
    shell = FakeShell()
    tour = Tour(Language.ENGLISH, asks=False, shell=shell)
    tour.start_lab("tour")
    tour.use_lab(LabFiles(Path("/lab")), CONFIG, None)
    tour.run([4])
    assert shell.commands[-1] == "bridgehead down --name tour --delete"
    assert not shell.ran("delete namespace")


def test_a_lab_that_does_not_start_is_removed_too(capsys):
    shell = FakeShell(**{"bridgehead up": Result(1, "first\nno user namespaces\n")})
    with pytest.raises(SystemExit):
        Tour(Language.ENGLISH, asks=False, shell=shell).start_lab("tour")
    assert shell.ran("bridgehead down")
    assert capsys.readouterr().err == "bridgehead tour: no user namespaces\n"


def answer(monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in lines)))


def test_answers_are_explained_until_the_right_one(monkeypatch, capsys):
    answer(monkeypatch, *[""] * len(LESSONS[0].steps), "1", "x", "9", "2")
    assert make(FakeShell(), asks=True).run([1]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "No: `ip address` on a node does not list it" in shown
    assert "Right. The mode ipvs is the exception" in shown
    assert "Right at the first try: 0 of 1." in shown


def test_n_goes_to_the_next_lesson_and_q_ends_the_tour(monkeypatch, capsys):
    answer(monkeypatch, "n", "", "q")
    shell = FakeShell()
    assert make(shell, asks=True).run([1, 4, 5]) == 0
    shown = capsys.readouterr().out
    assert LESSONS[3].title.en in shown
    assert LESSONS[4].title.en not in shown
    assert shell.ran("delete namespace")


def test_the_end_of_standard_input_ends_the_tour(monkeypatch):
    answer(monkeypatch)
    shell = FakeShell()
    assert make(shell, asks=True).run(ALL) == 0
    assert shell.ran("delete namespace")


def test_commands_find_a_lab_with_a_state_directory():
    shell = FakeShell()
    tour = Tour(Language.ENGLISH, asks=False, shell=shell)
    tour.use_lab(LabFiles(Path("/lab")), CONFIG, Path("/state dir"))
    shell.answers["bridgehead exec"] = Result(0, "ServerName")
    tour.run([3])
    assert shell.ran("bridgehead exec --state-dir '/state dir' -- curl")


@pytest.mark.parametrize(
    ("environment", "language"),
    [
        ({}, Language.ENGLISH),
        ({"LANG": "zh_CN.UTF-8"}, Language.CHINESE),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "C.UTF-8"}, Language.ENGLISH),
        ({"LANG": "de_DE.UTF-8", "LC_MESSAGES": "zh_TW"}, Language.CHINESE),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": ""}, Language.CHINESE),
    ],
)
def test_the_language_is_that_of_the_locales_messages(environment, language):
    assert language_of(environment) is language
