"""The language: literals, operators, macros, conversions.

Cases follow the conformance tests of the CEL specification."""

import math

import pytest

from bridgehead.apiserver.cel import DYN, Budget, CompileError, Environment, EvaluationError, ProgramError
from bridgehead.apiserver.cel.admission_environments import admission_environment, check_type_names
from bridgehead.apiserver.cel.types import BYTES, DOUBLE, INT, STRING, UINT, list_of, map_of

from .evaluation import UNTYPED, evaluate

VALUES = {
    # literals
    "0x55555555": 0x55555555,
    "-0x55": -0x55,
    "5u": 5,
    "1.5e3": 1500.0,
    ".99": 0.99,
    "-9223372036854775808": -(2**63),
    "true": True,
    "null": None,
    "'it\\'s'": "it's",
    '"\\x41\\u00e9\\U0001F431\\101\\n"': "Aé\U0001f431A\n",
    "r'\\n'": "\\n",
    "'''a'b'''": "a'b",
    "b'\\xff\\x00é'": b"\xff\x00\xc3\xa9",
    "[]": [],
    "[1, 2,]": [1, 2],
    "{}": {},
    "{'a': 1, 'b': 2,}": {"a": 1, "b": 2},
    "{1: 'x'}[1]": "x",
    "/* no comment */1".replace("/* no comment */", "// a comment\n"): 1,
    # arithmetic
    "1 + 2 * 3 - 4": 3,
    "-7 / 2": -3,
    "-7 % 2": -1,
    "7 % -2": 1,
    "7u / 2u": 3,
    "1.0 / 0.0": math.inf,
    "-1.0 / 0.0": -math.inf,
    "'a' + 'b'": "ab",
    "b'a' + b'b'": b"ab",
    "[1] + [2]": [1, 2],
    "-(1 + 2)": -3,
    "--1": 1,
    "!!true": True,
    "!true": False,
    # comparison
    "1 < 2 && 2u <= 2u && 3.0 > 2.5": True,
    "1 < 2u": True,
    "1 < 1.5": True,
    "'a' < 'b' && b'a' < b'b' && false < true": True,
    "1 == 1 && 'a' != 'b' && [1] == [1] && {'a': 1} == {'a': 1}": True,
    "dyn(1) == 1.0 && dyn(1u) == 1": True,
    "dyn(1) == true": False,
    "dyn(true) == 1": False,
    "dyn([1]) == [true]": False,
    "dyn('1') == 1": False,
    "[1, 2] == [2, 1]": False,
    "null == null": True,
    "x == null": False,
    "{'a': 1} == {'b': 1}": False,
    "double('NaN') == double('NaN')": False,
    "dyn({'a': [1]}) == dyn({'a': [1.0]})": True,
    "dyn({'a': 1}) == dyn([1])": False,
    "[optional.of(1)] == [optional.of(1)] && [optional.none()] != [optional.of(1)]": True,
    "[dyn(1), dyn('a')] == [dyn(1.0), dyn('a')]": True,
    "string(0.0) + string(-0.0)": "0-0",
    "string(double('Infinity')) + string(double('-Infinity')) + string(double('NaN'))": "+Inf-InfNaN",
    # logic
    "false && 1 / 0 == 1": False,
    "1 / 0 == 1 && false": False,
    "true || 1 / 0 == 1": True,
    "1 / 0 == 1 || true": True,
    "true ? 1 : 2": 1,
    "false ? 1 : true ? 2 : 3": 2,
    "true || false && false": True,
    "true && true && true && false": False,
    # membership, index and fields
    "1 in [1, 2]": True,
    "'two' in x.list": True,
    "2 in x.list": False,
    "3 in x.list": True,
    "'a' in x": True,
    "'z' in x": False,
    "x.b.c": "text",
    "x['b']['c']": "text",
    "x.list[1]": "two",
    "x.list[dyn(1.0)]": "two",
    "has(x.a)": True,
    "has(x.z)": False,
    "has(x.b.z)": False,
    ".x.a": 1,
    "x.list[dyn(0u)]": 1,
    "{1: 'a'}[dyn(1.0)]": "a",
    "b'a' in [b'a']": True,
    "dyn([1]) in [dyn([1])]": True,
    # optionals
    "has(optional.of(x).a) && !has(optional.none().a)": True,
    "dyn(optional.of({'a': 1})).a.value()": 1,
    "dyn(optional.of([1]))[0].value()": 1,
    "optional.of({'a': 1})['b'].hasValue()": False,
    "optional.none()[?0].hasValue()": False,
    "type(optional.of(1)) == optional_type": True,
    "x.?b.c.orValue('other')": "text",
    "x.?z.c.orValue('other')": "other",
    "x[?'a'].hasValue()": True,
    "x.list[?9].hasValue()": False,
    "[1, 2][?1].value()": 2,
    "{'a': 1}[?'b'].or(optional.of(3)).value()": 3,
    "optional.none().hasValue()": False,
    "optional.ofNonZeroValue('').hasValue()": False,
    "optional.of(1).optMap(v, v + 1).value()": 2,
    "optional.none().optMap(v, v).hasValue()": False,
    "optional.of(1).optFlatMap(v, optional.of(v + 2)).value()": 3,
    "[?optional.of(1), ?optional.none(), 3]": [1, 3],
    "{?'a': optional.none(), 'b': 1}": {"b": 1},
    "optional.of(1) == optional.of(1) && optional.none() != optional.of(1)": True,
    "has(x.?b.c)": True,
    # macros
    "[1, 2].all(i, i > 0)": True,
    "[].all(i, i > 0)": True,
    "{'a': 1}.all(k, k == 'a')": True,
    "[1, 2].exists(i, i == 2)": True,
    "[1, 0].all(i, 1 / i == 5)": False,
    "[0, 1].exists(i, 1 / i == 1)": True,
    "[1, 2, 2].exists_one(i, i == 1)": True,
    "[1, 2, 2].exists_one(i, i == 2)": False,
    "[1, 2, 3].filter(i, i > 1)": [2, 3],
    "{'a': 1, 'b': 2}.filter(k, k == 'b')": ["b"],
    "[1, 2].map(i, i * 2)": [2, 4],
    "[1, 2, 3].map(i, i > 1, i * 2)": [4, 6],
    "[[1, 2], [3]].map(l, l.map(i, i + l.size()))": [[3, 4], [4]],
    "[5, 6].all(i, v, i < v)": True,
    "{'a': 1}.all(k, v, k == 'a' && v == 1)": True,
    "{'a': 1, 'b': 2}.exists(k, v, v == 2)": True,
    "[5, 6].existsOne(i, v, i == 0)": True,
    "[5, 6].transformList(i, v, i + v)": [5, 7],
    "[5, 6].transformList(i, v, i > 0, i + v)": [7],
    "{'a': 1}.transformMap(k, v, v + 1)": {"a": 2},
    "{'a': 1, 'b': 2}.transformMap(k, v, k == 'b', v)": {"b": 2},
    "{'a': 'x'}.transformMapEntry(k, v, {v: k})": {"x": "a"},
    "items.map(i, i.name)": ["a", "b"],
    "items.exists(i, i.port == 443)": True,
    "[1].map(x, x)": [1],
    "[].map(e, e.y)": [],
    "[].map(e, e.map(f, f))": [],
    "[1].transformList(i, v, v > 1, v)": [],
    "x.list.exists_one(i, i == 1)": True,
    # conversions
    "int('-5') + int(5u) + int(5.9) + int('7')": 12,
    "uint(5) + uint('6')": 11,
    "double('1.5') + double(2) + double(3u)": 6.5,
    "string(1) + string(2u) + string(true) + string(1.5) + string(b'x')": "12true1.5x",
    "string(1e21) + ' ' + string(1e-7) + ' ' + string(100.0)": "1e+21 1e-07 100",
    "bytes('é')": b"\xc3\xa9",
    "bool('true')": True,
    "type(1) == int && type(1u) == uint && type('') == string && type(null) == null_type": True,
    "type([]) == list && type({}) == map && type(1.0) == double && type(b'') == bytes": True,
    "type(type(1)) == type": True,
    "type(x.a) == int && type(x.list[2]) == double": True,
    "size('é') + 'ab'.size() + size([1]) + {'a': 1}.size() + size(b'abc')": 8,
    # times
    "string(timestamp('2009-02-13T23:31:30.25+01:00'))": "2009-02-13T23:31:30.25+01:00",
    "string(timestamp('2009-02-13T23:31:30-08:30') + duration('1h'))": "2009-02-14T00:31:30-08:30",
    "type(ip('::1')) == net.IP && type(cidr('::/0')) == net.CIDR": True,
    "timestamp('2009-02-13T23:31:30+01:00').getHours()": 23,
    "timestamp('2009-02-13T23:31:30+01:00').getHours('UTC')": 22,
    "timestamp('2009-02-13T23:31:30+01:00') == timestamp('2009-02-13T22:31:30Z')": True,
    "string(duration('1h30m') + duration('-1500ms'))": "5398.5s",
    "timestamp('2020-01-01T00:00:00Z') + duration('24h') == timestamp('2020-01-02T00:00:00Z')": True,
    "timestamp('2020-01-02T00:00:00Z') - timestamp('2020-01-01T00:00:00Z') == duration('86400s')": True,
    "timestamp('2020-01-02T00:00:00Z') > timestamp('2020-01-01T00:00:00Z')": True,
    "timestamp('2009-02-13T23:31:30Z').getFullYear()": 2009,
    "timestamp('2009-02-13T23:31:30Z').getMonth()": 1,
    "timestamp('2009-02-13T23:31:30Z').getDate()": 13,
    "timestamp('2009-02-13T23:31:30Z').getDayOfMonth()": 12,
    "timestamp('2009-02-13T23:31:30Z').getDayOfWeek()": 5,
    "timestamp('2009-02-13T23:31:30Z').getDayOfYear()": 43,
    "timestamp('2009-02-13T23:31:30Z').getHours('-08:00')": 15,
    "timestamp('2009-02-13T23:31:30Z').getDate('Europe/Berlin')": 14,
    "timestamp('2009-02-13T23:31:20.123456789Z').getMilliseconds()": 123,
    "duration('90m').getHours() + duration('90m').getMinutes()": 91,
    "google.protobuf.Timestamp == type(timestamp(0)) && google.protobuf.Duration == type(duration('0'))": True,
    "timestamp('2009-02-13T23:31:30Z').getHours('UTC')": 23,
    "int(timestamp('1970-01-01T00:01:00Z')) + int(duration('1us'))": 1060,
    "timestamp(60) == timestamp('1970-01-01T00:01:00Z')": True,
}


@pytest.mark.parametrize(("expression", "value"), VALUES.items(), ids=str)
def test_values(expression, value):
    found = evaluate(expression)
    assert found == value
    assert isinstance(found, bool) == isinstance(value, bool)


FAILURES = {
    "9223372036854775807 + 1": "integer overflow",
    "-9223372036854775808 - 1": "integer overflow",
    "9223372036854775807 * 2": "integer overflow",
    "-(-9223372036854775808)": "integer overflow",
    "-9223372036854775808 / -1": "integer overflow",
    "0u - 1u": "unsigned integer overflow",
    "18446744073709551615u + 1u": "unsigned integer overflow",
    "1 / 0": "division by zero",
    "1 % 0": "modulus by zero",
    "1u % 0u": "modulus by zero",
    "[1e19].map(i, int(i))": "integer overflow",
    "['9223372036854775808'].map(i, int(i))": "type conversion error from 'string' to 'int'",
    "['18446744073709551616'].map(i, uint(i))": "type conversion error from 'string' to 'uint'",
    "['1e999'].map(i, double(i))": "type conversion error from 'string' to 'double'",
    "x.z": "no such key: z",
    "x['z']": "no such key: z",
    "x.z.y": "no such key: z",
    "x.a.y": "no such overload",
    "[1][1]": "index out of bounds: 1",
    "[1][-1]": "index out of bounds: -1",
    "x.a + 'b'": "no such overload",
    "x.a && true": "no such overload",
    "x.a ? 1 : 2": "no such overload",
    "x.a.startsWith('b')": "no such overload: startsWith(int, string)",
    "x.a.all(i, i)": "got 'no such overload' for the range of a comprehension: no such overload",
    "dyn(1)[0]": "no such overload",
    "{'a': 1}[dyn([1])]": "unsupported key type",
    "dyn([1]) in {'a': 1}": "unsupported key type",
    "[1][dyn('a')]": "unsupported index type 'string' in list",
    "x.list.y": "unsupported index type 'string' in list",
    "x.list.?y": "unsupported index type 'string' in list",
    "x.a.?y": "no such overload",
    "has(x.list.y)": "no such key",
    "has(x.a.y)": "no such overload",
    "{[1]: 2}": "unsupported key type: list(dyn)",
    "{'a': 1, 'b': 2}.transformMapEntry(k, v, {'x': v})": "insert failed: key x already exists",
    "x.a.optMap(i, i)": "no such overload",
    "[?x.a]": "cannot initialize optional entry from non-optional value int",
    "x.a || x.a": "no such overload",
    "[1].exists(i, x.a)": "no such overload",
    "[1].filter(i, x.a)": "no such overload",
    "missing": "no such attribute(s): missing",
    "duration('' + '')": 'time: invalid duration ""',
    "timestamp('2020-13-01T00:00:00' + 'Z')": 'parsing time "2020-13-01T00:00:00Z" as "2006-01-02T15:04:05Z07:00": '
    'cannot parse "2020-13-01T00:00:00Z" as "2006"',
    "timestamp('now' + '')": 'parsing time "now" as "2006-01-02T15:04:05Z07:00": cannot parse "now" as "2006"',
    "timestamp('9999-12-31T23:59:59Z').getDate('+14:00')": "timestamp overflow",
    "optional.none().value()": "optional.none() dereference",
    "{'a': 1, 'a': 2}": "insert failed: key a already exists",
    "[1, 0].all(i, 1 / i > 0)": "division by zero",
    "[1, 0].exists_one(i, 1 / i > 0)": "division by zero",
    "false || 1 / 0 == 1": "division by zero",
    "1 / 0 == 1 && true": "division by zero",
    "timestamp(99999999999999 + 1)": "timestamp overflow",
    "timestamp('9999-12-31T23:59:59Z') + duration('10s')": "timestamp overflow",
    "duration('200000h') + duration('2562047h')": "duration overflow",
    "timestamp('2020-01-01T00:00:00Z').getHours('Nowhere/Town')": "unknown time zone Nowhere/Town",
}


# Constants with which an expression becomes no program, wherever they are.
WRONG_CONSTANTS = {
    "int(1e19)": "integer overflow",
    "uint(-1)": "unsigned integer overflow",
    "int(double('NaN'))": "integer overflow",
    "int('1x')": "type conversion error from 'string' to 'int'",
    "int(string('1x'))": "type conversion error from 'string' to 'int'",
    "bool('maybe')": "type conversion error from 'string' to 'bool'",
    "double('x')": "type conversion error from 'string' to 'double'",
    "string(b'\\xff')": "invalid UTF-8 in bytes, cannot convert to string",
    "true || int('1x') == 1": "type conversion error from 'string' to 'int'",
    "[1].all(x, int('1x') == x)": "type conversion error from 'string' to 'int'",
    "{'a': [int(dyn('1x'))]}": "type conversion error from 'string' to 'int'",
    "int(1e19) + int('1x')": "integer overflow",
    "x.a.find('(')": "error parsing regexp: missing closing ): `(`",
    "'a'.findAll('(', 1)": "error parsing regexp: missing closing ): `(`",
    "'a'.matches(string('('))": "error parsing regexp: missing closing ): `(`",
}


@pytest.mark.parametrize(("expression", "message"), WRONG_CONSTANTS.items(), ids=str)
def test_wrong_constants_are_found_before_the_evaluation(expression, message):
    with pytest.raises(ProgramError) as caught:
        Environment(UNTYPED).compile(expression)
    assert str(caught.value) == f"program instantiation failed: {message}"


@pytest.mark.parametrize(("expression", "message"), FAILURES.items(), ids=str)
def test_failures(expression, message):
    with pytest.raises(EvaluationError) as caught:
        evaluate(expression, types={**UNTYPED, "missing": DYN})
    assert str(caught.value) == message


def mark(expression: str, column: int, message: str) -> str:
    """Return a compile error as it is printed."""
    return f"ERROR: <input>:1:{column}: {message}\n | {expression}\n | {'.' * (column - 1)}^"


TYPED = {"s": STRING, "i": INT, "u": UINT, "d": DOUBLE, "l": list_of(INT), "m": map_of(STRING, INT), "b": BYTES}
STRING_CLAUSE = (
    "error during formatting: string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, "
    "types, durations, and timestamps, was given "
)
REFUSALS = {
    "i + s": (3, "found no matching overload for '_+_' applied to '(int, string)'"),
    "s.size(1)": (7, "found no matching overload for 'size' applied to 'string.(int)'"),
    "s.missing()": (10, "undeclared reference to 'missing' (in container '')"),
    "missing": (1, "undeclared reference to 'missing' (in container '')"),
    "i.field": (2, "type 'int' does not support field selection"),
    "i == s": (3, "found no matching overload for '_==_' applied to '(int, string)'"),
    "i == u": (3, "found no matching overload for '_==_' applied to '(int, uint)'"),
    "!i": (1, "found no matching overload for '!_' applied to '(int)'"),
    "i && true": (3, "found no matching overload for '_&&_' applied to '(int, bool)'"),
    "i ? 1 : 2": (3, "found no matching overload for '_?_:_' applied to '(int, int, int)'"),
    "true ? 1 : s": (6, "found no matching overload for '_?_:_' applied to '(bool, int, string)'"),
    "s in m == 1": (8, "found no matching overload for '_==_' applied to '(bool, int)'"),
    "i in s": (3, "found no matching overload for '@in' applied to '(int, string)'"),
    "l[s]": (2, "found no matching overload for '_[_]' applied to '(list(int), string)'"),
    "m[i]": (2, "found no matching overload for '_[_]' applied to '(map(string, int), int)'"),
    "s.all(c, true)": (
        1, "expression of type 'string' cannot be range of a comprehension (must be list, map, or dynamic)"
    ),
    "[1, 'a']": (5, "expected type 'int' but found 'string'"),
    "{'a': 1, 'b': 'c'}": (15, "expected type 'int' but found 'string'"),
    "l.all(1, true)": (7, "argument must be a simple name"),
    "l.map(1, true)": (7, "argument is not an identifier"),
    "l.sortBy(1, true)": (10, "argument is not an identifier"),
    "l.sortBy(x, [x])": (
        9, "found no matching overload for '@sortByAssociatedKeys' applied to 'list(int).(list(list(int)))'"
    ),
    "m.sortBy(x, x)": (
        9, "found no matching overload for '@sortByAssociatedKeys' applied to 'map(string, int).(list(string))'"
    ),
    "s.sortBy(x, x)": (
        9, "expression of type 'string' cannot be range of a comprehension (must be list, map, or dynamic)"
    ),
    "'a'.sortBy(x, x)": (
        1, "sortBy can only be applied to a list, identifier, comprehension, call or select expression"
    ),
    "quantity('1').value": (14, "unexpected failed resolution of 'kubernetes.Quantity'"),
    "quantity('1').sign()": (19, "found no matching overload for 'sign' applied to 'kubernetes.Quantity.()'"),
    "has(s)": (5, "invalid argument to has() macro"),
    "l.map(i, i + s)": (12, "found no matching overload for '_+_' applied to '(int, string)'"),
    "l.filter(x, x)": (9, "found no matching overload for '_?_:_' applied to '(int, dyn, dyn)'"),
    "l.all(x, x)": (6, "found no matching overload for '_&&_' applied to '(bool, int)'"),
    "l.exists(x, s)": (9, "found no matching overload for '_||_' applied to '(bool, string)'"),
    "i.optMap(x, x)": (9, "found no matching overload for 'hasValue' applied to 'int.()'"),
    "optional.of(1).optFlatMap(x, x)": (30, "expected type 'optional_type(dyn)' but found 'int'"),
    "[?1]": (3, "expected type 'optional_type(int)' but found 'int'"),
    "{?'a': 1}": (8, "expected type 'optional_type(int)' but found 'int'"),
    "m.transformMapEntry(k, v, v)": (
        20, "found no matching overload for 'cel.@mapInsert' applied to '(map(dyn, dyn), int)'"
    ),
    "l.all(x, x, true)": (10, "duplicate variable name: x"),
    "l.optMap(1, 2)": (10, "optMap() variable name must be a simple identifier"),
    "b'\\u0041'": (1, "Syntax error: token recognition error: invalid escape sequence"),
    "'\\q'": (1, "Syntax error: token recognition error: invalid escape sequence"),
    "'\\ud800'": (1, "invalid unicode code point"),
    "1e999": (1, "invalid double literal"),
    "99999999999999999999999999999999999999999": (1, "invalid int literal"),
    "[1": (3, "Syntax error: mismatched input '<EOF>' expecting ']'"),
    "{1}": (3, "Syntax error: mismatched input '}' expecting ':'"),
    "{1: 2": (6, "Syntax error: mismatched input '<EOF>' expecting '}'"),
    "T{a: 2": (7, "Syntax error: mismatched input '<EOF>' expecting '}'"),
    "T{1: 2}": (3, "Syntax error: mismatched input '1' expecting IDENTIFIER"),
    "s.": (3, "Syntax error: mismatched input '<EOF>' expecting IDENTIFIER"),
    ".(": (2, "Syntax error: mismatched input '(' expecting IDENTIFIER"),
    "i ? 1": (6, "Syntax error: mismatched input '<EOF>' expecting ':'"),
    "1 2 3": (3, "Syntax error: mismatched input '2' expecting <EOF>"),
    "for": (1, "reserved identifier: for"),
    "18446744073709551616u": (1, "invalid uint literal"),
    "9223372036854775808": (1, "invalid int literal"),
    "1 2": (3, "Syntax error: extraneous input '2' expecting <EOF>"),
    "1 & 2": (3, "Syntax error: token recognition error at: '& '"),
    "s.matches('a(')": (11, "invalid matches argument"),
    "duration('1 hour')": (10, "invalid duration argument"),
    "timestamp('today')": (11, "invalid timestamp argument"),
    "timestamp(99999999999999)": (11, "invalid timestamp argument"),
    "'%d'.format([''])": (14, "error during formatting: decimal clause can only be used on integers, was given string"),
    "'%f %s'.format([1.0, [duration('1s'), optional.of(1)]])": (50, f"{STRING_CLAUSE}optional_type"),
    "'%s'.format([{'a': quantity('1')}])": (28, f"{STRING_CLAUSE}kubernetes.Quantity"),
    "'%x'.format([timestamp(1)])": (
        23, "error during formatting: only integers, byte buffers, and strings can be formatted as hex, was given "
        "google.protobuf.Timestamp"
    ),
    "'%% %s %s'.format([1])": (18, "index 1 out of range"),
    "'%s'.format([1, 2])": (12, "too many arguments supplied to string.format (expected 1, got 2)"),
    "'%z'.format([1])": (12, 'could not parse formatting clause: unrecognized formatting clause "z"'),
    "'%'.format([1])": (11, "unexpected end of string"),
    "Thing{a: 1}": (6, "undeclared reference to 'Thing' (in container '')"),
}  # fmt: skip


@pytest.mark.parametrize(("expression", "problem"), REFUSALS.items(), ids=str)
def test_refusals(expression, problem):
    with pytest.raises(CompileError) as caught:
        Environment(TYPED).compile(expression)
    shown = str(caught.value).removeprefix("compilation failed: ")
    if "token recognition error at" in problem[1]:  # one error may cause a second one
        assert shown.startswith(f"ERROR: <input>:1:{problem[0]}: Syntax error: token recognition error at: '&")
    else:
        assert shown == mark(expression, *problem)


def test_errors_name_the_line():
    with pytest.raises(CompileError) as caught:
        Environment(TYPED).compile("i == 1 &&\n  s == 2")
    assert "ERROR: <input>:2:5: found no matching overload" in str(caught.value)
    assert str(caught.value).endswith("\n |   s == 2\n | ....^")


def test_all_errors_are_reported_in_order():
    with pytest.raises(CompileError) as caught:
        Environment(UNTYPED).compile("a + b")
    assert [issue.offset for issue in caught.value.issues] == [0, 4]


@pytest.mark.parametrize(
    "expression", ["(" * 2000 + "1" + ")" * 2000, "-" * 5 + "[" * 400, "x" + ".a" * 300, "1" + "+1" * 300]
)
def test_nesting_is_bounded(expression):
    with pytest.raises(CompileError, match="expression recursion limit exceeded: 250"):
        Environment(UNTYPED).compile(expression)


def test_long_conjunctions_are_not_nested():
    assert evaluate(" && ".join(["true"] * 3000)) is True


def test_the_length_of_an_expression_is_bounded():
    with pytest.raises(CompileError, match="expression code point size exceeds limit: size: 100002, limit 100000"):
        Environment({}).compile(f"'{'a' * 100_000}'")


def test_strings_that_do_not_end():
    with pytest.raises(CompileError) as caught:
        Environment(TYPED).compile("s == 'abc\n && true")
    assert str(caught.value).startswith(
        "compilation failed: ERROR: <input>:1:6: Syntax error: token recognition error at: ''abc'"
    )


def test_messages_have_declared_fields():
    environment = admission_environment(has_params=False, can_patch=True)
    made = environment.compile(
        "JSONPatch{op: 'add', ?path: optional.of('/a'), ?from: optional.none(), value: {'b': 1}}"
    )
    value = made.evaluate({}, Budget())
    assert (value, value.type_name) == ({"op": "add", "path": "/a", "value": {"b": 1}}, "JSONPatch")
    nested = environment.compile("Object{spec: Object.spec{a: [Object.spec.a{b: 1}]}}.spec.a[0].b").evaluate(
        {}, Budget()
    )
    assert nested == 1
    for expression, problem in {
        "JSONPatch{name: 1}": "undefined field 'name'",
        "JSONPatch{op: 1}": "expected type of field 'op' is 'string' but provided type is 'int'",
        "Other{a: x}": "undeclared reference to 'x'",
    }.items():
        with pytest.raises(CompileError, match=problem):
            environment.compile(expression)
    assert check_type_names(environment.compile("Object{a: Object.b{}}").evaluate({}, Budget())) == [
        'unexpected type name "Object.b", expected "Object.a", which matches field name path from root Object type'
    ]
