"""Transcripts (tests/e2e/transcripts.py): their form, and which outputs they accept."""

from __future__ import annotations

import pytest

from tests.e2e.transcripts import Call, parse

TEXT = """## A remark
$ kubectl get pods
> --all
NAME   AGE
web    <age>
[1]

until$ kubectl get services
$ kubectl version

## Another remark
$ kubectl options
...
the end
"""


def test_parsing() -> None:
    assert parse(TEXT) == [
        Call(2, "kubectl get pods\n--all", ("NAME AGE", "web <age>"), 1, until=False),
        Call(8, "kubectl get services", (), 0, until=True),
        Call(9, "kubectl version", (), 0, until=False),
        Call(12, "kubectl options", ("...", "the end"), 0, until=False),
    ]


def test_an_output_needs_a_command() -> None:
    with pytest.raises(ValueError, match="line 2: no command before 'web'"):
        parse("## A remark\nweb\n")


@pytest.mark.parametrize(
    ("expected", "output", "is_right"),
    [
        (("NAME AGE", "web <age>"), "NAME      AGE\n\nweb       3m20s  \n", True),
        (("NAME AGE", "web <age>"), "NAME AGE\nweb soon\n", False),
        (("NAME AGE",), "NAME AGE\nweb 3s\n", False),
        (("a.b",), "acb\n", False),
        (("...", "end"), "end\n", True),
        (("...", "end"), "one\ntwo\nend\n", True),
        (("...", "end"), "one\n", False),
        (("at <ip>:<port>",), "at 10.0.0.1:80\n", True),
        (("at <ip>",), "at web\n", False),
        (("uid: <id>",), "uid: 3fa85f64-5717-4562-b3fc-2c963f66afa6\n", True),
        (("<time> x",), "2026-01-02T03:04:05.678901Z x\n", True),
        (("<none>",), "none\n", False),
        ((), "", True),
        ((), 'I1124 04:49:10.7   9 reflector.go:664] "Warning: watch ended with error" err="context canceled"\n', True),
        ((), 'I1124 04:49:10.7   9 reflector.go:664] "Warning: watch ended with error" err="refused"\n', False),
        ((), "x\n", False),
    ],
)
def test_what_is_accepted(expected: tuple[str, ...], output: str, is_right: bool) -> None:
    assert Call(1, "kubectl", expected, 0, until=False).accepts(output, 0) is is_right
    assert not Call(1, "kubectl", expected, 1, until=False).accepts(output, 0)
