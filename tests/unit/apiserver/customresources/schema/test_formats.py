from __future__ import annotations

import time

import pytest

from bridgehead.apiserver.customresources.schema.formats import format_check, unrecognized_format
from bridgehead.apiserver.customresources.schema.patterns import compile_pattern
from bridgehead.apiserver.go_patterns import BadPattern

FORMATS: dict[str, tuple[list[str], list[str]]] = {
    "bsonobjectid": (["507f1f77bcf86cd799439011"], ["507f", "z07f1f77bcf86cd799439011"]),
    "uri": (
        ["http://a.b/c?d=e#f", "/path", "mailto:a@b", "https://[::1]:80/", "http://u:p@h/%20", "*", "//host/x"],
        ["", "a", "a/b", "http://a b/", "http://h/%zz", "http://h:port/", "http://h/\n"],
    ),
    "email": (["a@b", "A B <a@b.c>", '"x y"@b', "a@[127.0.0.1]"], ["", "a", "@b", "a@", "a b@c", "<a@b"]),
    "hostname": (["a", "a.bc", "1.example.com", "é.fr"], ["", "-a", "a..b", "a_b", "a." + "b" * 64 + ".com", "a b"]),
    "ipv4": (["1.2.3.4", "::ffff:1.2.3.4"], ["1.2.3", "01.2.3.4", "::1", ""]),
    "ipv6": (["::1", "fe80::1"], ["1.2.3.4", "fe80::1%eth0", ":::"]),
    "cidr": (["10.0.0.0/8", "10.0.0.1/8", "::/0"], ["10.0.0.0", "10.0.0.0/33", "10.0.0.0/08", "::/129", "a/8"]),
    "mac": (
        ["00:11:22:33:44:55", "00-11-22-33-44-55", "0011.2233.4455", "00:11:22:33:44:55:66:77"],
        ["00:11:22:33:44", "001122334455", "0g:11:22:33:44:55", "00:11:22:33:44:55:66"],
    ),
    "uuid": (["a987fbc9-4bed-3078-cf07-9141ba07c9f3", "A987FBC94BED3078CF079141BA07C9F3"], ["a987fbc9", "x" * 32]),
    "uuid3": (["a987fbc9-4bed-3078-cf07-9141ba07c9f3"], ["a987fbc9-4bed-4078-cf07-9141ba07c9f3"]),
    "uuid4": (["57b73598-8764-4ad0-a76a-679bb6640eb1"], ["57b73598-8764-4ad0-c76a-679bb6640eb1"]),
    "uuid5": (["987fbc97-4bed-5078-af07-9141ba07c9f3"], ["987fbc97-4bed-5078-7f07-9141ba07c9f3"]),
    "isbn": (["0321751043", "978-0321751041"], ["0321751044", "978-0321751042", "x"]),
    "isbn10": (["0321751043", "080442957X"], ["978-0321751041"]),
    "isbn13": (["978-0321751041"], ["0321751043"]),
    "creditcard": (["4111-1111-1111-1111", "375556917985515"], ["4111-1111-1111-1112", "1"]),
    "ssn": (["111-11-1111", "111 11 1111", "111111111"], ["11-11-1111"]),
    "hexcolor": (["#FFFFFF", "fff"], ["#ff", "#GGG"]),
    "rgbcolor": (["rgb(0,31,255)", "rgb( 1 , 2 , 3 )"], ["rgb(0,31,256)", "rgb(0,31)"]),
    "byte": (["YQ==", "YWJj"], ["", "YQ", "a b="]),
    "password": (["", "anything"], []),
    "date": (["2014-12-15"], ["2014-13-15", "2014-12-1", "14-12-15", "2014-12-15T00:00:00Z"]),
    "duration": (["1h30m", "-1.5h", "0", "22 ns", "3 weeks 2 days", "1µs"], ["", "h", "1 parsec", "1.5 days"]),
    "date-time": (
        ["2014-12-15T19:30:20.000Z", "2014-12-15t19:30:20+01:00"],
        ["2014-12-15", "2014-12-15T24:30:20Z", "2014-12-15T19:30:20", "2014-12-15T19:60:20Z"],
    ),
    "quantity": (["10Gi", "100m", "1e3"], ["", "10 Gi", "x"]),
    "k8s-short-name": (["a-b", "1"], ["", "A", "a.b", "a" * 64]),
    "k8s-long-name": (["a.b-c"], ["A", ".a", "a" * 254]),
}


@pytest.mark.parametrize("name", FORMATS)
def test_formats(name: str) -> None:
    valid, invalid = FORMATS[name]
    check = format_check(name)
    assert check is not None
    assert [text for text in valid if not check(text)] == []
    assert [text for text in invalid if check(text)] == []


def test_a_newline_at_the_end_is_no_end() -> None:
    for name in ("uuid", "ssn", "hexcolor", "byte", "k8s-short-name", "date"):
        check = format_check(name)
        assert check is not None
        assert not check(FORMATS[name][0][0] + "\n")


def test_every_format_has_a_case() -> None:
    from bridgehead.apiserver.customresources.schema.formats import _CHECKS

    assert {name.replace("-", "") for name in FORMATS} == set(_CHECKS)


@pytest.mark.parametrize(
    ("type", "format", "is_unknown"),
    [
        ("string", "date-time", False),
        ("", "ipv4", False),
        ("string", "int32", True),
        ("integer", "int32", False),
        ("integer", "date", True),
        ("number", "double", False),
        ("number", "int64", True),
        ("object", "date", True),
    ],
)
def test_formats_belong_to_types(type: str, format: str, is_unknown: bool) -> None:
    assert unrecognized_format(type, format) == is_unknown


@pytest.mark.parametrize(
    ("pattern", "error"),
    [
        ("[a", "missing closing ]: `[a`"),
        ("(a", "missing closing ): `(a`"),
        ("a(?=b)", "invalid or unsupported Perl syntax: `(?=`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("*a", "missing argument to repetition operator: `*`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        (r"\8", r"invalid escape sequence: `\8`"),
        ("a\\", "trailing backslash at end of expression: ``"),
    ],
)
def test_patterns_of_other_languages(pattern: str, error: str) -> None:
    with pytest.raises(BadPattern) as caught:
        compile_pattern(pattern)
    assert str(caught.value) == f"error parsing regexp: {error}"


def test_patterns_are_searched_in_unicode() -> None:
    assert compile_pattern(r"^\p{Lu}é$")("Éé")
    assert not compile_pattern(r"^\d$")("٣")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("email", "x" * 50_000),
        ("email", "a." * 25_000),
        ("email", "a " * 25_000),
        ("duration", "1" * 50_000),
        ("duration", "1h" * 25_000 + "!"),
        ("duration", "1 day " * 10_000 + "!"),
    ],
)
def test_check_of_a_long_text_takes_linear_time(name: str, text: str) -> None:
    check = format_check(name)
    assert check is not None
    started = time.process_time()
    assert not check(text)
    assert time.process_time() - started < 1
