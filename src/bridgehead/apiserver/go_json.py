"""JSON as Go's package encoding/json reads it, and the reasons why a text is no JSON, as it writes them.

Reasons are only looked for after msgspec has rejected a text, which is much faster.

Pure: no I/O, no clock, no randomness. Source: Go's encoding/json, scanner.go.
"""

from __future__ import annotations

import json
import re
from itertools import accumulate
from typing import Any, Final

import msgspec

from .go_values import quoted

_SPACE = re.compile(rb"[ \t\r\n]*")
_TEXT = re.compile(rb'[^"\\\x00-\x1f]*')
_DIGITS = re.compile(rb"[0-9]*")
_LITERALS = {b"t": b"true", b"f": b"false", b"n": b"null"}
_SURROGATE = re.compile("[\ud800-\udfff]")
_HEX = b"0123456789abcdefABCDEF"
_MOST_DEPTH: Final = 10_000
_OTHERS = bytes(set(range(256)) - set(b"{[]}"))
_STEPS = bytes.maketrans(b"{[]}", b"\x01\x01\xff\xff")  # signed, 1 and -1
_MOST_EXPLAINED = 2**16  # bytes, which take a tenth of a second; errors in larger texts are those of msgspec

# Go's name of the position after an item, and the bracket that may follow there, by the opening bracket.
_AFTER_ITEM = {b"{": ("after object key:value pair", b"}"), b"[": ("after array element", b"]")}


class GoSyntaxError(ValueError):
    """A text that is no JSON. The message is that of Go's decoder."""


def check_depth(text: bytes) -> None:
    """Raise RecursionError, as a decoder does, for JSON that is nested deeper than Go decodes.

    Interpreters have bounds of their own, but not the same: from 3.14 on it is the size of the thread's stack. A text
    that ends before its brackets are closed may pass: it is no JSON.
    """
    if len(text) <= 2 * _MOST_DEPTH or len(text.translate(None, _OTHERS)) <= 2 * _MOST_DEPTH:
        return
    outside = text.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')[::2]  # of strings
    brackets = b"".join(outside).translate(_STEPS, _OTHERS)
    if max(accumulate(memoryview(brackets).cast("b")), default=0) > _MOST_DEPTH:
        raise RecursionError("exceeded max depth")


def decode(body: bytes) -> Any:
    """Decode JSON as Go does: what is not Unicode becomes U+FFFD. Raises `GoSyntaxError`."""
    try:
        check_depth(body)
        return msgspec.json.decode(body)
    except RecursionError:
        raise GoSyntaxError("exceeded max depth") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if len(body) <= _MOST_EXPLAINED and (why := json_error(body)):
            raise GoSyntaxError(why) from None
        try:
            replaced = json.dumps(json.loads(body.decode("utf-8", "replace")), ensure_ascii=False)
            return msgspec.json.decode(_SURROGATE.sub("\ufffd", replaced))
        except (ValueError, RecursionError):  # such as a number of thousands of digits
            raise GoSyntaxError(str(error)) from None


class _Problem(Exception):
    """The first character that cannot stand where it does, or the end of the body."""


def json_error(body: bytes) -> str:
    """Return the error of a body that is no JSON; "" if its syntax is right."""
    try:
        _Scanner(body).scan()
    except _Problem as problem:
        return str(problem)
    return ""


class _Scanner:
    def __init__(self, body: bytes) -> None:
        self._body = body
        self._at = 0

    def scan(self) -> None:
        """Read the whole body. Raises _Problem."""
        opened: list[bytes] = []
        while True:
            if self._begin_value(opened):
                continue
            while opened:
                where, end = _AFTER_ITEM[opened[-1]]
                found = self._next()
                if found == end:
                    opened.pop()
                elif found != b",":
                    raise self._wrong(where)
                else:
                    break
            if not opened:
                break
            if opened[-1] == b"{":
                self._key()
        self._space()
        if self._at < len(self._body):
            self._at += 1
            raise self._wrong("after top-level value")

    def _begin_value(self, opened: list[bytes]) -> bool:
        """Read a scalar or the start of an object or list. Returns whether a value inside of it follows."""
        found = self._next()
        if found in (b"{", b"["):
            if len(opened) >= _MOST_DEPTH:
                raise _Problem("exceeded max depth")
            self._space()
            if self._body[self._at : self._at + 1] == _AFTER_ITEM[found][1]:
                self._at += 1
                return False
            opened.append(found)
            if found == b"{":
                self._key()
            return True
        if found == b'"':
            self._string()
        elif found in _LITERALS:
            self._literal(_LITERALS[found])
        elif found == b"-" or found.isdigit():
            self._number(found)
        else:
            raise self._wrong("looking for beginning of value")
        return False

    def _key(self) -> None:
        if self._next() != b'"':
            raise self._wrong("looking for beginning of object key string")
        self._string()
        if self._next() != b":":
            raise self._wrong("after object key")

    def _string(self) -> None:
        while True:
            self._at = _end(_TEXT, self._body, self._at)
            found = self._take()
            if found == b'"':
                return
            if found != b"\\":
                raise self._wrong("in string literal")
            escape = self._inside()
            if escape == b"u":
                for _ in range(4):
                    if self._inside() not in _HEX:
                        raise self._wrong("in \\u hexadecimal character escape")
            elif escape not in b'bfnrt\\/"':
                raise self._wrong("in string escape code")

    def _literal(self, literal: bytes) -> None:
        for expected in literal[1:].decode():
            if self._inside() != expected.encode():
                raise self._wrong(f"in literal {literal.decode()} (expecting '{expected}')")

    def _number(self, first: bytes) -> None:
        if first == b"-" and not (first := self._inside()).isdigit():
            raise self._wrong("in numeric literal")
        if first != b"0":
            self._at = _end(_DIGITS, self._body, self._at)
        if self._body[self._at : self._at + 1] == b".":
            self._at += 1
            self._one_digit("after decimal point in numeric literal")
        if self._body[self._at : self._at + 1] in (b"e", b"E"):
            self._at += 1
            if self._body[self._at : self._at + 1] in (b"+", b"-"):
                self._at += 1
            self._one_digit("in exponent of numeric literal")

    def _one_digit(self, where: str) -> None:
        if not self._inside().isdigit():
            raise self._wrong(where)
        self._at = _end(_DIGITS, self._body, self._at)

    def _space(self) -> None:
        self._at = _end(_SPACE, self._body, self._at)

    def _next(self) -> bytes:
        self._space()
        return self._take()

    def _take(self) -> bytes:
        """Return the next byte. Raises _Problem at the end of the body."""
        if self._at >= len(self._body):
            raise _Problem("unexpected end of JSON input")
        self._at += 1
        return self._body[self._at - 1 : self._at]

    def _inside(self) -> bytes:
        """Return the next byte of a literal, number or escape. As in Go, a space stands for the end of the body."""
        if self._at < len(self._body):
            return self._take()
        self._body, self._at = b" ", 1
        return b" "

    def _wrong(self, where: str) -> _Problem:
        """Return the error of the byte that was read last."""
        character = chr(self._body[self._at - 1])
        shown = {"'": "\\'", '"': '"'}.get(character, quoted(character)[1:-1])
        return _Problem(f"invalid character '{shown}' {where}")


def _end(pattern: re.Pattern[bytes], body: bytes, start: int) -> int:
    found = pattern.match(body, start)
    return start if found is None else found.end()
