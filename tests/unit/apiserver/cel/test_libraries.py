"""The libraries: examples of Kubernetes' documentation of each function, and what it refuses."""

import pytest

from bridgehead.apiserver.cel import Budget, Environment, EvaluationError
from bridgehead.apiserver.cel.library.authorization import AUTHORIZER, AccessQuery, Authorizer, Decision

from .evaluation import evaluate

VALUES = {
    # lists and sets
    "[1, 2, 2].isSorted() && ['a', 'b'].isSorted() && ![2, 1].isSorted()": True,
    "[1, 3].sum() + [1].max() + [4, 5].min()": 9,
    "[1.0, 0.5].sum()": 1.5,
    "[duration('1m'), duration('1s')].sum() == duration('61s')": True,
    "[].sum() == 0": True,
    "[1, 2, 2].indexOf(2) + [1, 2, 2].lastIndexOf(2) + ['a'].indexOf('b')": 2,
    "sets.contains([1, 2], [2.0, 1u])": None,  # elements must have one type
    "sets.contains([1, 2], [2]) && sets.contains([1], []) && !sets.contains([], [1])": True,
    "sets.equivalent([1, 2, 2], [2, 1]) && !sets.equivalent([1], [1, 2])": True,
    "sets.intersects([1, 2], [2, 3]) && !sets.intersects([1], [])": True,
    "sets.contains([[1], [2]], [[2]]) && sets.intersects([[1]], [[1]])": True,
    # strings
    "'hello'.charAt(4) + 'a'.charAt(1)": "o",
    "'hello mellow'.indexOf('ello') + 'hello mellow'.indexOf('ello', 2) + 'hello'.indexOf('x')": 7,
    "'hello mellow'.lastIndexOf('ello') + 'hello mellow'.lastIndexOf('ello', 6)": 8,
    "'TacoCat'.lowerAscii() + 'TacoCÆt'.upperAscii()": "tacocatTACOCÆT",
    "'hello'.replace('l', 'x') + 'hello'.replace('l', 'x', 1) + 'hello'.replace('l', 'x', 0)": "hexxohexlohello",
    "'ab'.replace('', '-')": "-a-b-",
    "'a b c'.split(' ') == ['a', 'b', 'c'] && 'a b c'.split(' ', 2) == ['a', 'b c']": True,
    "'abc'.split('') == ['a', 'b', 'c'] && 'abc'.split('', 2) == ['a', 'bc'] && 'a'.split(' ', 0) == []": True,
    "['a', 'b'].join() + ['a', 'b'].join('-') + [].join('-')": "aba-b",
    "'tacocat'.substring(4) + 'tacocat'.substring(0, 4)": "cattaco",
    "'  \\ttrim\\n '.trim()": "trim",
    "'ab'.contains('b') && 'ab'.startsWith('a') && 'ab'.endsWith('b') && !'ab'.contains('c')": True,
    "strings.quote('a\\n\"b\"')": '"a\\n\\"b\\""',
    # format
    "'%s: %d %.2f %e "
    "%b %o %x %X %%'.format(['a', 7, 1.005, 1052.0, 5, 8, 255, 'z'])": "a: 7 1.00 1.052000e+03 101 10 ff 7A %",
    "'%s %s %s %s'.format([true, null, [1, 'a'], {'b': 2, 'a': 1}])": "true null [1, a] {a: 1, b: 2}",
    "'%s %s'.format([timestamp('2020-01-01T00:00:00Z'), duration('90s')])": "2020-01-01T00:00:00Z 90s",
    "'%s %d'.format(dyn([double('Infinity'), double('NaN')]))": "Infinity NaN",
    "'%s'.format([type(1)])": "int",
    "'%s %s'.format([b'a', double('-Infinity')])": "a -Infinity",
    "'%x %X'.format([b'\\xff', 10])": "ff A",
    "'a'.indexOf('') + 'a'.lastIndexOf('') + 'a'.lastIndexOf('', 0)": 1,
    "dyn(['a', 'b']).join('-')": "a-b",
    "dyn([1.5, 2.5]).sum()": 4.0,
    # regular expressions
    "'abc 123'.find('[0-9]+') + 'abc'.find('x')": "123",
    "'123 abc 456'.findAll('[0-9]+') == ['123', '456'] && '1 2'.findAll('[0-9]', 1) == ['1']": True,
    "'1 2'.findAll('[0-9]', 0) == [] && '1 2'.findAll('[0-9]', -1).size() == 2": True,
    "'foobar'.matches('o+b') && matches('foo', '^fo*$') && !'foo'.matches('^o')": True,
    # URLs
    "url('https://user@example.com:80/path?k=v').getScheme()": "https",
    "url('https://user@example.com:80/').getHost() + ' ' + url('/path').getHost()": "example.com:80 ",
    "url('https://[::1]:80/').getHostname() + ' ' + url('https://example.com/').getHostname()": "::1 example.com",
    "url('https://[::1]:80/').getPort() + url('https://example.com/').getPort()": "80",
    "url('https://example.com/path with spaces/').getEscapedPath()": "/path%20with%20spaces/",
    "url('https://e.com/?k=a&k=b&l=%26').getQuery() == {'k': ['a', 'b'], 'l': ['&']}": True,
    "isURL('https://example.com/') && isURL('/absolute-path')": True,
    "isURL('../relative') || isURL('https://a:b:c/') || isURL(':5000') || isURL('')": False,
    "url('https://e.com/p?k=a#f').getQuery() == {'k': ['a']} && url('/p#f?q=1').getEscapedPath() == '/p'": True,
    "[url('mailto:a?b=c').getScheme(), url('mailto:a?b=c').getHost(), url('mailto:a?b=c').getEscapedPath()]": [
        "mailto", "", ""],
    "url('mailto:a?b=c').getQuery()": {"b": ["c"]},
    "optional.ofNonZeroValue(uint(0)) == optional.none() && optional.ofNonZeroValue(1u).hasValue()": True,
    # quantities
    "quantity('50Mi').isInteger() && !quantity('0.5').isInteger()": True,
    "quantity('50k').asInteger() + sign(quantity('-1'))": 49999,
    "quantity('1500m').asApproximateFloat()": 1.5,
    "quantity('1Gi') == quantity('1024Mi') && quantity('1Gi') != quantity('1G')": True,
    "quantity('1k').add(1).sub(quantity('1')).compareTo(quantity('1000'))": 0,
    "quantity('1k').isLessThan(quantity('1Ki')) && quantity('1Ki').isGreaterThan(quantity('1k'))": True,
    "isQuantity('1.3Gi') && !isQuantity('1,3') && !isQuantity('Three') && !isQuantity('1' + 'e99999')": True,
    # addresses
    "isIP('127.0.0.1') && isIP('::1') && !isIP('127.0.0.256') && !isIP('::ffff:1.2.3.4')"
    " && !isIP('fe80::1%eth0')": True,
    "ip('127.0.0.1').isLoopback() && ip('::').isUnspecified() && ip('fe80::1').isLinkLocalUnicast()": True,
    "ip('224.0.0.1').isLinkLocalMulticast() && ip('192.168.0.1').isGlobalUnicast()"
    " && ip('ff02::1').isLinkLocalMulticast()": True,
    "!ip('224.0.1.1').isLinkLocalMulticast() && !ip('255.255.255.255').isGlobalUnicast()": True,
    "ip.isCanonical('2001:db8::abcd') && !ip.isCanonical('2001:DB8::Abcd')": True,
    "ip('::1').family() + ip('1.2.3.4').family()": 10,
    "string(ip('2001:DB8::1')) + ' ' + string(cidr('10.1.2.3/8'))": "2001:db8::1 10.1.2.3/8",
    "cidr('192.168.0.0/24').containsIP('192.168.0.1') && !cidr('192.168.0.0/24').containsIP(ip('192.168.1.1'))": True,
    "cidr('192.168.0.0/24').containsCIDR('192.168.0.0/25')"
    " && !cidr('10.0.0.0/25').containsCIDR(cidr('10.0.0.0/24'))": True,
    "cidr('192.168.1.5/24').masked() == cidr('192.168.1.0/24') && cidr('10.0.0.1/8').ip() == ip('10.0.0.1')": True,
    "isCIDR('10.0.0.0/8') && !isCIDR('10.0.0.0') && !isCIDR('10.0.0.0/33') && !isCIDR('10.0.0.0/08')": True,
    # lists
    "[1, 2, 3, 4].slice(1, 3) + [1].slice(1, 1)": [2, 3],
    "[[1, 2], [3]].flatten() + [[1], [], [2]].flatten()": [1, 2, 3, 1, 2],
    "[[[1], [2]], [[3]]].flatten(2) == [1, 2, 3] && [[1]].flatten(0) == [[1]]": True,
    "[3, 1, 2].sort() + ['b', 'a'].sort().map(x, size(x))": [1, 2, 3, 1, 1],
    "[true, false].sort() == [false, true] && dyn([2u, 1u]).sort() == [1u, 2u] && [].sort() == []": True,
    "['ccc', 'a', 'bb'].sortBy(x, size(x)) + [1, 2, 3].sortBy(x, -x).map(x, string(x))": [
        "a", "bb", "ccc", "3", "2", "1"],
    "[{'a': 2}, {'a': 1}].sortBy(one, dyn(one).a) == [{'a': 1}, {'a': 2}]": True,
    "[1, 2, 3].reverse() + lists.range(3) + lists.range(0) + lists.range(-1)": [3, 2, 1, 0, 1, 2],
    "[2, 1, 2, 1].distinct() + [].distinct()": [2, 1],
    "[[1], [2], [1]].distinct() == [[1], [2]] && [dyn(1), dyn(1.0), dyn(1u), dyn(2)].distinct().size() == 2": True,
    "[1, 2].first().value() + [1, 2].last().value() * 10": 21,
    "[].first().hasValue() || [].last().hasValue()": False,
    "optional.unwrap([optional.of(1), optional.none()]) + [optional.of(2)].unwrapOpt()": [1, 2],
    # formats
    "format.dns1123Label().validate('my-label').hasValue()": False,
    "format.dns1123Label().validate('My_label').value().size()": 1,
    "format.named('uuid').value().validate('123e4567-e89b-12d3-a456-426614174000').hasValue()": False,
    "format.named('nothing').hasValue()": False,
    "format.uri().validate('../x').value()[0]": 'parse "../x": invalid URI for request',
    "format.byte().validate('aGVsbG8=').hasValue() || format.date().validate('2021-01-01').hasValue()": False,
    "format.datetime().validate('2021').value() + format.uuid().validate('x').value()": [
        "invalid datetime",
        "does not match the UUID format",
    ],
    "format.dns1123LabelPrefix().validate('a-').hasValue() || format.dns1035Label().validate('a1').hasValue()": False,
    "format.dns1035Label().validate('1a').hasValue() && format.qualifiedName().validate('a/b/c').hasValue()": True,
    # versions
    "semver('1.2.3').major() + semver('1.2.3').minor() + semver('1.2.3').patch()": 6,
    "semver('1.2.3').compareTo(semver('2.0.0')) + semver('1.0.0').compareTo(semver('1.0.0'))": -1,
    "semver('1.0.0-alpha.2').isLessThan(semver('1.0.0-alpha.10'))"
    " && semver('1.0.0').isGreaterThan(semver('1.0.0-rc'))": True,
    "isSemver('1.0.0+build') && !isSemver('v1.0') && isSemver('v1.0', true) && !isSemver('1.02.3')": True,
    "semver('v01.01', true) == semver('1.1.0')": True,
}  # fmt: skip


@pytest.mark.parametrize(("expression", "value"), VALUES.items(), ids=str)
def test_values(expression, value):
    if value is None:
        with pytest.raises(Exception, match="expected type 'double' but found 'uint'"):
            evaluate(expression)
    else:
        assert evaluate(expression) == value


_CIDR = "network address parse error during conversion from string: "
FAILURES = {
    "[1].slice(0, 2)": "cannot slice(0, 2), list is length 1",
    "[1].slice(1, 0)": "cannot slice(1, 0), start index must be less than or equal to end index",
    "[1].slice(-1, 1)": "cannot slice(-1, 1), negative indexes not supported",
    "[[1]].flatten(-1)": "level must be non-negative",
    "[dyn(1), dyn('a')].sort()": "list elements must have the same type",
    "dyn([[1], [2]]).sort()": "list elements must be comparable",
    "[1, 2].sortBy(x, dyn({}))": "list elements must be comparable",
    "[].max()": "max called on empty list",
    "x.list.isSorted()": "no such overload",
    "'a'.charAt(2)": "index out of range: 2",
    "'a'.indexOf('a', 3)": "index out of range: 3",
    "'a'.lastIndexOf('a', -1)": "index out of range: -1",
    "'abc'.substring(4)": "index out of range: 4",
    "'abc'.substring(2, 1)": "invalid substring range. start: 2, end: 1",
    "'%d'.format(dyn([]))": "index 0 out of range",
    "'%z'.format(dyn([1]))": 'could not parse formatting clause: unrecognized formatting clause "z"',
    "'%d'.format(dyn(['a']))": "error during formatting: decimal clause can only be used on integers, was given string",
    "dyn([1]).join('-')": "no such overload",
    "dyn(['a']).sum()": "no such overload",
    "dyn([[1]]).max()": "no such overload",
    "'%'.format(dyn([]))": "unexpected end of string",
    "'%!'.format(dyn([]))": 'could not parse formatting clause: unrecognized formatting clause "!"',
    "'%.1001f'.format([1.0])": "precision too large: 1001",
    "'%s'.format(dyn([optional.none()]))": "error during formatting: string clause can only be used on strings, bools, "
    "bytes, ints, doubles, maps, lists, types, durations, and timestamps, was given optional",
    "url('https://a' + '\\n')": 'URL parse error during conversion from string: parse "https://a\n": '
    "net/url: invalid control character in URL",
    "url(':80')": 'URL parse error during conversion from string: parse ":80": missing protocol scheme',
    "url('/%zz')": 'URL parse error during conversion from string: parse "/%zz": invalid URL escape "%zz"',
    "url('https://[::1/')": 'URL parse error during conversion from string: parse "https://[::1/": '
    "invalid URI for request",
    "ip('1'.replace('1', '11111111111111111111111111111111111111111111111111111111111111111'))": "IP Address "
    '"11111111111111111111111111111111111111111111111111111111111111111" parse error during conversion from string: '
    'ParseAddr("11111111111111111111111111111111111111111111111111111111111111111"): unable to parse IP',
    "semver('1.0.0-01')": 'Numeric PreRelease version must not contain leading zeroes "01"',
    "'a'.matches('a' + '(')": "error parsing regexp: missing closing ): `a(`",
    "url('../x')": 'URL parse error during conversion from string: parse "../x": invalid URI for request',
    "url('')": 'URL parse error during conversion from string: parse "": empty url',
    "quantity('200K')": "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
    "quantity('0.5').asInteger()": "cannot convert value to integer",
    "ip('1.2.3')": 'IP Address "1.2.3" parse error during conversion from string: '
    'ParseAddr("1.2.3"): IPv4 address too short',
    "ip('fe80::1%eth0')": 'IP address "fe80::1%eth0" with zone value is not allowed',
    "ip('::ffff:1.2.3.4')": 'IPv4-mapped IPv6 address "::ffff:1.2.3.4" is not allowed',
    "cidr('1.2.3.4')": f"{_CIDR}{_CIDR}netip.ParsePrefix(\"1.2.3.4\"): no '/'",
    "cidr('1.2.3.4/08')": f'{_CIDR}{_CIDR}netip.ParsePrefix("1.2.3.4/08"): bad bits after slash: "08"',
    "cidr('1.2.3.4/33')": f'{_CIDR}{_CIDR}netip.ParsePrefix("1.2.3.4/33"): prefix length out of range',
    "cidr('fe80::1%a/64')": f'{_CIDR}{_CIDR}netip.ParsePrefix("fe80::1%a/64"): '
    "IPv6 zones cannot be present in a prefix",
    "cidr('::ffff:1.2.3.4/120')": f'{_CIDR}IPv4-mapped IPv6 address "::ffff:1.2.3.4/120" is not allowed',
    "'a'.find('(' + 'a')": "Illegal regex: error parsing regexp: missing closing ): `(a`",
    "'a'.findAll('[' + 'a')": "Illegal regex: error parsing regexp: missing closing ]: `[a`",
    "'a'.matches('a' + r'\\C')": "error parsing regexp: invalid escape sequence: `\\C`",
    "semver('')": "Version string empty",
    "semver('a.2.3')": 'Invalid character(s) found in major number "a"',
    "semver('1.2.')": 'strconv.ParseUint: parsing "": invalid syntax',
    "semver('1.2.3-')": "Prerelease is empty",
    "semver('1.2.3-a_b')": 'Invalid character(s) found in prerelease "a_b"',
    "semver('1.2.3+')": "Build meta data is empty",
    "semver('1.2.3+a_b')": 'Invalid character(s) found in build meta data "a_b"',
    "semver('1.2.99999999999999999999')": 'strconv.ParseUint: parsing "99999999999999999999": value out of range',
    "semver('1')": "No Major.Minor.Patch elements found",
    "semver('1-rc', true)": "short version cannot contain PreRelease/Build meta data",
}


@pytest.mark.parametrize(("expression", "message"), FAILURES.items(), ids=str)
def test_failures(expression, message):
    with pytest.raises(EvaluationError) as caught:
        evaluate(expression)
    assert str(caught.value) == message


def test_authorization_checks():
    asked: list[AccessQuery] = []

    def decide(query: AccessQuery) -> Decision:
        asked.append(query)
        return Decision(query.verb == "get", "because")

    def run(expression: str) -> object:
        program = Environment({"authorizer": AUTHORIZER}).compile(expression)
        return program.evaluate({"authorizer": Authorizer(decide)}, Budget())

    assert run("authorizer.path('/healthz').check('get').allowed()") is True
    pods = "authorizer.group('').resource('pods').subresource('log').namespace('n').name('p')"
    assert run(f"{pods}.check('delete').allowed()") is False
    assert (
        run("authorizer.serviceAccount('n', 'sa').group('apps').resource('deployments').check('get').reason()")
        == "because"
    )
    assert run("authorizer.group('').resource('pods').labelSelector('a=b').check('get').errored()") is False
    assert asked == [
        AccessQuery("get", path="/healthz"),
        AccessQuery("delete", resource="pods", subresource="log", namespace="n", name="p"),
        AccessQuery("get", group="apps", resource="deployments", service_account=("n", "sa")),
        AccessQuery("get", resource="pods", label_selector="a=b"),
    ]
    for expression, message in {
        "authorizer.path(' ').check('get').allowed()": "path must not be empty",
        "authorizer.group('').resource('').check('get').allowed()": "resource must not be empty",
        "authorizer.serviceAccount('n', 'A').path('/').check('get').allowed()": "Invalid service account name: a lower",
        "authorizer.serviceAccount('N', 'a').path('/').check('get').allowed()": "Invalid service account namespace: a",
    }.items():
        with pytest.raises(EvaluationError, match=message):
            run(expression)
