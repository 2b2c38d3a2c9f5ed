"""Errors of malformed JSON, with the texts of Go."""

from __future__ import annotations

import json
from contextlib import nullcontext

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.apiserver import go_json
from bridgehead.apiserver.go_json import json_error

END = "unexpected end of JSON input"
ERRORS = {
    "": END,
    "{": END,
    '{"a":1': END,
    '"abc': END,
    '{"a":}': "invalid character '}' looking for beginning of value",
    "{a:1}": "invalid character 'a' looking for beginning of object key string",
    '{"a":1,}': "invalid character '}' looking for beginning of object key string",
    '{"a" 1}': "invalid character '1' after object key",
    '{"a":1 "b"}': "invalid character '\"' after object key:value pair",
    "[1 2]": "invalid character '2' after array element",
    "{}x": "invalid character 'x' after top-level value",
    '"\x01"': "invalid character '\\x01' in string literal",
    '"\\q"': "invalid character 'q' in string escape code",
    '"\\u12g4"': "invalid character 'g' in \\u hexadecimal character escape",
    "-": "invalid character ' ' in numeric literal",
    "1.}": "invalid character '}' after decimal point in numeric literal",
    "1e+": "invalid character ' ' in exponent of numeric literal",
    "01": "invalid character '1' after top-level value",
    "[tru]": "invalid character ']' in literal true (expecting 'e')",
    "[" * 10_001: "exceeded max depth",
    "'": "invalid character '\\'' looking for beginning of value",
}


@pytest.mark.parametrize(("text", "error"), ERRORS.items(), ids=lambda text: text[:20])
def test_errors(text: str, error: str) -> None:
    assert json_error(text.encode()) == error


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(VALUES)
def test_json_has_no_error(value: object) -> None:
    assert json_error(json.dumps(value, indent=1).encode()) == ""


@given(VALUES, st.data())
def test_what_is_rejected_has_an_error(value: object, data: st.DataObject) -> None:
    text = json.dumps(value)
    at = data.draw(st.integers(0, len(text)))
    broken = (text[:at] + data.draw(st.sampled_from('{}[]:,"\\ex-. 0')) + text[at + 1 :]).encode()
    # Numbers out of range and halves of surrogate pairs are no errors of syntax.
    rejected = _error_of_msgspec(broken)
    if rejected and not any(word in rejected for word in ("range", "surrogate", "escape")):
        assert json_error(broken)


def _error_of_msgspec(body: bytes) -> str:
    try:
        msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b'{"a": "\xffb"}', {"a": "\ufffdb"}),
        (rb'["\ud800"]', ["\ufffd"]),
        (b' [{}, [], -0.5e1, "\\u00e9"] ', [{}, [], -5, "é"]),
    ],
)
def test_what_is_not_unicode_is_replaced(body, value):
    assert go_json.decode(body) == value


@pytest.mark.parametrize(
    ("body", "message"),
    [(b"a: b", "invalid character 'a' looking for beginning of value"), (b"[" * 20_000, "exceeded max depth")],
)
def test_what_is_no_json_is_refused(body, message):
    with pytest.raises(go_json.GoSyntaxError, match=message):
        go_json.decode(body)


def test_errors_of_large_texts_are_not_searched() -> None:
    """The search takes a microsecond for each byte."""
    large = b"[" + b"1," * 2**16
    with pytest.raises(go_json.GoSyntaxError, match="truncated"):
        go_json.decode(large)
    assert go_json.decode(b"[" + b"1," * 2**16 + b'"\xff"]')[-1] == "\ufffd"


@pytest.mark.parametrize(
    ("text", "is_refused"),
    [
        (b"[" * 10_000 + b"]" * 10_000, False),
        (b"[" * 10_001 + b"]" * 10_001, True),
        (b'{"a":[' * 5001 + b"]}" * 5001, True),
        (b'["]\\"]", ' * 10_001 + b"0" + b"]" * 10_001, True),  # closed only in texts
        (b"[" + b'"[", ' * 30_000 + b"0]", False),
        (b"[" + rb'"\"[\\", ' * 30_000 + b"0]", False),
        (b"[" + b"[], {}, " * 30_000 + b"0]", False),
        (b"[" * 30_000, True),
        (b"]" * 30_000, False),
    ],
    ids=lambda value: value[:10] if isinstance(value, bytes) else value,
)
def test_depth_is_bounded_as_in_go(text: bytes, is_refused: bool) -> None:
    """Python 3.14 would decode some of these: its bound is the size of the stack."""
    with pytest.raises(RecursionError) if is_refused else nullcontext():
        go_json.check_depth(text)
