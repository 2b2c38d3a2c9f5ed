"""The text of Corefiles: tokens, quotes, braces, variables, snippets and other files."""

from __future__ import annotations

import pytest

from bridgehead.dns.corefile.parser import Directive, parse
from bridgehead.dns.corefile.referenced_files import Sources
from bridgehead.dns.errors import ConfigInvalid

FILES = {
    "/etc/coredns/custom/a.override": "log\n",
    "/etc/coredns/custom/b.override": "hosts {\n 10.0.0.1 a\n}\n",
    "/etc/coredns/custom/x.server": "# theirs\nx.example {\n forward . {$UPSTREAM}\n}\n",
    "/etc/coredns/wrong.server": "\nx {\n whoami",
    "/etc/coredns/circle": "import circle\n",
}


def _read(path: str) -> str:
    try:
        return FILES[path]
    except KeyError:
        raise FileNotFoundError(2, "No such file or directory") from None


def _find(pattern: str) -> list[str]:
    folder, _, ending = pattern.partition("*")
    return sorted(path for path in FILES if path.startswith(folder) and path.endswith(ending))


AROUND = Sources("/etc/coredns", _read, _find, {"UPSTREAM": "10.0.0.1", "DOMAIN": "k8s.example", "EMPTY": ""})


def _lines(directives: tuple[Directive, ...]) -> list[object]:
    """The tokens of each line, followed by a list of those of its block."""
    return [[*line.tokens, _lines(line.block)] if line.has_block else list(line.tokens) for line in directives]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(". {\n}", [[".", []]], id="an empty server"),
        pytest.param(". {\n errors { }\n}", [[".", [["errors", []]]]], id="an empty block in one line"),
        pytest.param("a, b {\n x\n}", [["a,", "b", [["x"]]]], id="several keys"),
        pytest.param("a,\n b {\n x\n}", [["a,", "b", [["x"]]]], id="keys in several lines"),
        pytest.param(".:53\nx 1\ny {\n z\n}", [[".:53", [["x", "1"], ["y", [["z"]]]]]], id="one server without braces"),
        pytest.param("# a\n. { # b\n x a#b # c\n}", [[".", [["x", "a#b"]]]], id="comments"),
        pytest.param('. {\n x "a b" "#c"\n}', [[".", [["x", "a b", "#c"]]]], id="quotes"),
        pytest.param(". {\n" r' x "a \"b\" \.c"' "\n}", [[".", [["x", r'a "b" \.c']]]], id="quotes in quotes"),
        pytest.param(
            "{%DOMAIN%}:53 {\n forward . {$UPSTREAM}:54\n}",
            [["k8s.example:53", [["forward", ".", "10.0.0.1:54"]]]],
            id="variables",
        ),
        pytest.param(
            "(usual) {\n errors\n log {\n  class all\n }\n}\n. {\n import usual\n}\nx {\n import usual\n y\n}",
            [[".", [["errors"], ["log", [["class", "all"]]]]], ["x", [["errors"], ["log", [["class", "all"]]], ["y"]]]],
            id="a snippet",
        ),
        pytest.param(
            "(a) {\n x\n}\n(b) {\n import a\n y\n}\n. {\n import b\n}", [[".", [["x"], ["y"]]]], id="in another"
        ),
        pytest.param(
            ". {\n import custom/*.override\n}\nimport custom/*.server",
            [[".", [["log"], ["hosts", [["10.0.0.1", "a"]]]]], ["x.example", [["forward", ".", "10.0.0.1"]]]],
            id="other files, as k3s and AKS leave a place for them",
        ),
        pytest.param("import custom/x.server", [["x.example", [["forward", ".", "10.0.0.1"]]]], id="nothing else"),
        pytest.param(". {\n import nothing/*.here\n}", [[".", []]], id="a pattern that fits nothing"),
    ],
)
def test_corefile_syntax_is_parsed(text: str, expected: list[object]) -> None:
    assert _lines(parse(text, AROUND)) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (". {\n x\n}\nfoward . 1.1.1.1", "line 4: 'foward . 1.1.1.1' is in no server block"),
        (". {\n x\n}\na,", "'a,' at the end is not followed by a server block"),
        (". {\n x {$NOBODY}\n}", "line 2: environment variable NOBODY is not set: set it"),
        (". {\n x {%EMPTY%}\n}", "line 2: environment variable EMPTY is not set"),
        ('. {\n x "a\n}', "line 2: a quote is opened and not closed on its line"),
        (". {\n import\n}", "line 2: import takes"),
        (". {\n import a b\n}", "line 2: import takes"),
        (". {\n import nobody\n}", "line 2: import /etc/coredns/nobody: No such file or directory"),
        (". {\n import circle\n}", "line 1 of /etc/coredns/circle: import is circular"),
        ("(a) {\n import a\n}\n. {\n import a\n}", "line 2: import is circular"),
        ("(a) {\n}\n(a) {\n}", "line 3: a second snippet (a)"),
        ("import wrong.server", "line 2 of /etc/coredns/wrong.server: a brace is opened and not closed"),
    ],
)
def test_invalid_syntax_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigInvalid) as caught:
        parse(text, AROUND)
    assert message in str(caught.value)


def test_files_are_relative_to_the_corefile(tmp_path) -> None:
    for name, domain in (("b", "b.example"), ("a", "a.example")):
        (tmp_path / f"{name}.server").write_text(f"{domain} {{\n whoami\n}}")
    servers = parse("import *.server", Sources(str(tmp_path)))
    assert [server.tokens for server in servers] == [("a.example",), ("b.example",)]
