"""Label selectors as text: kubectl's `-l` and the API's `labelSelector`."""

from __future__ import annotations

import pytest

from bridgehead.objects.selectors import parse_label_selector

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
        ("size<-1", False),
        ("app>1", False),
        ("none<1", False),
    ],
)
def test_matching(text, matches):
    assert parse_label_selector(text).matches(LABELS) is matches


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (",", "name part must be non-empty|name part must consist"),
        ("a,", "ends with ','"),
        ("a b", "found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a=b c", "expected ',' between the terms"),
        ("=a", "^found '=', expected: !, identifier, or 'end of string'$"),
        ("a,(b)", r"^found '\(', expected: !"),
        ("!", "found '', expected: identifier"),
        ("a>" + "9" * 5000, "must be an integer"),
        ("a>b", "for 'Gt', 'Lt' operators, 'b' must be an integer"),
        ("a in b", r"expected '\(' after in or notin"),
        ("a in", r"expected '\(' after in or notin"),
        ("a in (b", r"found '', expected: '\)'"),
        ("a=-b", "a valid label must be"),
        ("a in (b,-c)", "a valid label must be"),
        ("a/b/c=d", "a qualified name must"),
    ],
)
def test_what_is_no_selector(text, reason):
    with pytest.raises(ValueError, match=reason):
        parse_label_selector(text)
