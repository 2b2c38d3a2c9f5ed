"""Selectors as text: kubectl's `-l`, and the API's `labelSelector` and `fieldSelector`."""

from __future__ import annotations

import re

import pytest

from bridgehead.objects.selectors import parse_field_selector, parse_label_selector

LABELS = {"app": "web", "tier": "front", "size": "10", "empty": ""}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("app", True),
        ("none", False),
        ("!none", True),
        ("! app", False),
        ("app=web,tier==front", True),
        ("app = web , tier != back", True),
        ("app=", False),
        ("empty=", True),
        ("empty=,app=web", True),
        ("none!=x", True),
        ("app in (web,api)", True),
        ("app in (api)", False),
        ("empty in (,x)", True),
        ("empty in ()", True),
        ("empty in (x,)", True),
        ("app notin (web)", False),
        ("none notin (web)", True),
        ("size>9,size<11", True),
        ("size>10", False),
        ("size<1", False),
        ("app>1", False),
        ("none<1", False),
    ],
)
def test_matching(text, matches):
    assert parse_label_selector(text).matches(LABELS) is matches


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (",", "found ',', expected: !, identifier, or 'end of string'"),
        ("a,", "found '', expected: identifier after ','"),
        ("a,(b)", "found '(', expected: identifier after ','"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("a=b||c=d", 'unable to parse requirement: values[0][a]: Invalid value: "b||c": a valid label must be'),
        ("a==b==c", "found '==', expected: ',' or 'end of string'"),
        ("!a=b", "found '=', expected: ',' or 'end of string'"),
        ("=a", "found '=', expected: !, identifier, or 'end of string'"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        ("a=)", "unable to parse requirement: found ')', expected: identifier"),
        ("a>" + "9" * 5000, "unable to parse requirement: values[0]: Invalid value: "),
        ("a>b", "for 'Gt', 'Lt' operators, the value must be an integer"),
        ("a<-1", 'unable to parse requirement: values[0][a]: Invalid value: "-1": a valid label must be'),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a in", "unable to parse requirement: found '' expected: '('"),
        ("a in (", "unable to parse requirement: found '', expected: ',', ')' or identifier"),
        ("a in (b,=", "unable to parse requirement: found '=', expected: ',', or identifier"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a in (b c)", "unable to parse requirement: found 'c', expected: ',' or ')'"),
        ("a=-b", "a valid label must be"),
        ("a in (b,-c)", 'unable to parse requirement: values[0][a]: Invalid value: "-c": a valid label must be'),
        ("a/b/c=d", 'unable to parse requirement: <nil>: Invalid value: "a/b/c": a qualified name must'),
    ],
)
def test_what_is_no_selector(text, reason):
    with pytest.raises(ValueError, match=re.escape(reason)):
        parse_label_selector(text)


def test_values_of_field_selectors_may_have_escapes():
    selector = parse_field_selector(r"a=x\,y\=\\,b!=,c==z")
    assert [(one.key, one.operator, set(one.values)) for one in selector.requirements] == [
        ("a", "in", {"x,y=\\"}),
        ("b", "notin", {""}),
        ("c", "in", {"z"}),
    ]
    for text, reason in (
        ("a", "invalid selector: 'a'; can't understand 'a'"),
        ("a=b=c", "invalid field selector: unescaped character in value: 61"),
        (r"a=b\c", r"invalid field selector: invalid escape sequence: \c"),
        ("a=b\\", "invalid field selector: invalid escape sequence: \\"),
    ):
        with pytest.raises(ValueError, match=re.escape(reason)):
            parse_field_selector(text)
