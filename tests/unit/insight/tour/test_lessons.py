"""The lessons' data: both languages, commands that stay in the tour's namespace, questions with an answer."""

from __future__ import annotations

import re
import string
from collections.abc import Iterator

import pytest

from bridgehead.cli import COMMANDS
from bridgehead.insight.tour import phrases
from bridgehead.insight.tour.lesson import Language, Lesson, Need, Step, Text
from bridgehead.insight.tour.lessons import BASE, LESSONS
from bridgehead.insight.tour.values import LOOKUPS, fill_in, names_in

_CHINESE = re.compile(r"[\u4e00-\u9fff]")
# Terms for which the tutorials have another one.
_OTHER_TERMS = ("伺服", "終端", "终结点", "无头的服务", "标签选择符", "命名空間")
_CHANGING = ("apply", "create", "delete", "expose", "label", "patch", "run", "scale", "set")

STEPS = [(lesson, step) for lesson in LESSONS for step in lesson.steps]
COMMANDS_SHOWN = [*BASE, *(step.command for _, step in STEPS)]


def texts_of(lesson: Lesson) -> Iterator[Text]:
    yield lesson.title
    for step in lesson.steps:
        yield step.text
        if step.after is not None:
            yield step.after
    yield lesson.question.text
    for choice in lesson.question.choices:
        yield choice.text
        yield choice.why


def phrase_texts() -> Iterator[Text]:
    yield from (value for value in vars(phrases).values() if isinstance(value, Text))
    yield from phrases.MISSING.values()


def test_the_lessons_are_those_of_the_tutorials():
    assert [lesson.name for lesson in LESSONS] == [
        *("cluster-ip", "endpoints", "node-port", "dns", "variables", "affinity", "policies", "modes", "headless"),
        *("external-name", "load-balancers", "failures"),
    ]


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.name)
def test_every_text_is_in_both_languages(lesson):
    for text in texts_of(lesson):
        assert text.of(Language.ENGLISH), text
        assert text.of(Language.CHINESE), text
        assert not _CHINESE.search(text.en), text
        # Names of commands, modes and interfaces are the same in both.
        is_name = text.en == text.zh
        assert is_name or _CHINESE.search(text.zh) or re.fullmatch(r"[\w.-]+", text.zh), text
        assert not any(term in text.zh for term in _OTHER_TERMS), text
        assert not is_name or len(text.en) < 16, text


def test_the_tours_own_texts_are_in_both_languages_with_the_same_fields():
    def fields(text: str) -> set[str | None]:
        return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}

    found = list(phrase_texts())
    assert len(found) > 20
    for text in found:
        assert fields(text.en) == fields(text.zh), text
        assert not _CHINESE.search(text.en), text
    assert set(phrases.MISSING) == set(Need)


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.name)
def test_a_question_has_one_right_answer_and_explains_all(lesson):
    question = lesson.question
    assert 0 <= question.right < len(question.choices)
    assert len(question.choices) >= 3
    rights = [index for index, choice in enumerate(question.choices) if choice.why.en.startswith("Right")]
    assert rights == [question.right]
    assert [choice.why.zh.startswith("正确") for choice in question.choices].index(True) == question.right


def test_the_right_choice_differs_from_lesson_to_lesson():
    assert {lesson.question.right for lesson in LESSONS} == {0, 1, 2}


@pytest.mark.parametrize("command", COMMANDS_SHOWN)
def test_a_command_changes_its_own_namespace_only(command):
    filled = fill_in(command, lambda name: name)
    for part in re.findall(r"\b(?:kubectl|bridgehead)\b[^&|;]*", filled.partition("<<")[0]):
        program, *arguments = part.split()
        if program == "kubectl":
            is_own = arguments[:2] == ["-n", "tour"]
            verb = arguments[2] if arguments[0] == "-n" else arguments[0]
            assert is_own or verb == "get", part
            assert verb in (*_CHANGING, "get", "exec", "rollout", "wait"), part
        else:
            assert arguments[0] in COMMANDS, part
            assert arguments[0] in ("exec", "rules", "flows", "trace", "doctor", "balancer"), part


def test_every_value_of_a_command_can_be_looked_up():
    used = {name for command in COMMANDS_SHOWN for name in names_in(command)}
    assert used <= set(LOOKUPS)
    assert set(LOOKUPS) <= used, "a value that no command has"


@pytest.mark.parametrize("step", [step for _, step in STEPS], ids=lambda step: step.command[:40])
def test_a_step_can_be_judged(step):
    re.compile(step.expected)
    assert step.expected or step.fails
    assert not step.waits or step.expected


def test_commands_in_the_network_of_a_lab_need_one():
    for lesson, step in STEPS:
        if re.search(r"\bbridgehead (exec|rules|flows|trace)\b", step.command):
            assert Need.LAB in step.needs, (lesson.name, step.command)
        if "curl" in step.command:
            assert Need.CURL in step.needs, (lesson.name, step.command)
        if "empty_node_ip" in step.command:
            assert Need.EMPTY_NODE in step.needs, (lesson.name, step.command)


def test_values_are_filled_in():
    step = Step(text=Text("", ""), command="curl http://@web_ip@:@node_port@ @web_ip@ a@b.c")
    assert list(names_in(step.command)) == ["web_ip", "node_port"]
    assert fill_in(step.command, {"web_ip": "10.0.0.1", "node_port": "30000"}.__getitem__) == (
        "curl http://10.0.0.1:30000 10.0.0.1 a@b.c"
    )
