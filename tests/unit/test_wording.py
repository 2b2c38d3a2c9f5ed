"""Plain technical English in docstrings, comments, names and `--help`; the rules are in tests/wording.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridgehead import cli
from tests.wording import (
    modules_below,
    private_names,
    sentences,
    violations_of_module,
    violations_of_name,
    violations_of_sentence,
)

SOURCE = Path(cli.__file__).parents[1]
TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent
PACKAGES = sorted(path for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists())


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_sources_follow_the_wording_rules(package: Path) -> None:
    assert [
        f"{module.relative_to(SOURCE)}:{line}: {violation}"
        for module in modules_below(package)
        for line, violation in violations_of_module(module)
    ] == []


@pytest.mark.parametrize("directory", ["tests", "chaos", "benchmarks", "deploy", "documentation"])
def test_tests_and_tools_follow_the_wording_rules(directory: str) -> None:
    modules = modules_below(ROOT / directory)
    assert modules
    assert [
        f"{module.relative_to(ROOT)}:{line}: {violation}"
        for module in modules
        for line, violation in violations_of_module(module)
    ] == []


def helps(name: str) -> list[str]:
    command = cli.load_command(name)
    return [command.help or "", cli.COMMANDS[name][1], *(param.help or "" for param in command.params)]


@pytest.mark.parametrize("name", sorted(cli.COMMANDS))
def test_help_follows_the_wording_rules(name: str) -> None:
    prose = [paragraph for text in helps(name) for paragraph in text.split("\n\n")]
    assert [
        violation
        for paragraph in prose
        for sentence in sentences(" ".join(paragraph.split()))
        for violation in violations_of_sentence(sentence)
    ] == []


@pytest.mark.parametrize(
    "sentence",
    [
        "And one after a FIN.",
        "But at least so many in all.",
        "It is told in the log.",
        "Those that every table has.",
        "What a container of a pod may say.",
        "1 tells every sync.",
        "The merge patch that says it.",
        "Tell every peer.",
    ],
)
def test_violations_are_found(sentence: str) -> None:
    assert list(violations_of_sentence(sentence)) != []


@pytest.mark.parametrize(
    "sentence",
    [
        "Controllers for Endpoints and EndpointSlices.",
        "This node's primary address.",
        "One table per address family.",
        "Return the Service's external addresses.",
        "It is repaired, and its name stays.",
        "They are sorted.",
        "This is the default.",
    ],
)
def test_plain_sentences_are_accepted(sentence: str) -> None:
    assert list(violations_of_sentence(sentence)) == []


def test_private_words_are_found_in_every_paragraph(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text('"""Plain.\n\nIt is plain.\n\nThe log says so.\n"""\n')
    assert [violation for _, violation in violations_of_module(module)] == [
        "'says' (rather: reports, states, contains): The log says so."
    ]


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ('"""And a module."""\n', 1),
        ('"""A module.\n\nFine. It is fine.\n"""\n\n\nclass A:\n    """Plain `a`. Those are not."""\n', 8),
        ('async def a():\n    if 1:\n\n        def b():\n            r"""\n            Nothing.\n            """\n', 5),
        ("try:\n    a = 1\nexcept ValueError as told:\n    told = 2\n", 4),
        ("def a(b, *, is_told): ...\n", 1),
        ("a = 1  # fine\n# It is fine, and\n# long. What is not.\nb = 2\n", 2),
        ("def a():\n    # Fine\n    b = 1\n    # So be it.\n", 4),
        ("a = '#'  # as it was told\n", 1),
    ],
)
def test_violations_in_modules_are_found(tmp_path: Path, source: str, line: int) -> None:
    module = tmp_path / "module.py"
    module.write_text(source)
    assert [at for at, _ in violations_of_module(module)] == [line]


def test_trailing_comments_may_begin_with_any_word(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text("a = '# And.'  # So be it. What is it?\n# of what is `told`\n")
    assert list(violations_of_module(module)) == []


@pytest.mark.parametrize(("name", "is_refused"), [("is_told", True), ("Place", True), ("address_port", False)])
def test_private_words_in_names_are_found(name: str, is_refused: bool) -> None:
    assert bool(list(violations_of_name(name, private_names(Path())))) is is_refused
