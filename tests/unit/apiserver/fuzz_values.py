"""The texts, numbers and parameters that random requests are made of."""

from __future__ import annotations

from typing import Any

TEXTS: tuple[str, ...] = (
    'x', 'y', 'default', 'kube-system', '', 'a.b', 'a.b/c', 'X', 'é', '\x00', "a" * 300, '-', '*', '/', 'a/b/c',
    '$(A)', '10.0.0.1', '127.0.0.1', '::1', 'fd00::1', '10.96.0.9', '10.0.0.0/24', 'fd00::/64', '0.0.0.0/0',
    '1.2.3.4.5', '1', '100m', '1Gi', '1e3', '-1', '0', '1e400', '.5', '1.5Ki', '99999999999999999999', '50%',
    '-5%', '1000%', 'http', '2026-11-21T03:48:41Z', '2026-11-21T03:48:41.000001Z', '9999-12-31T23:59:59Z',
    '0001-01-01T00:00:00Z', '1h', '-1h', 'true', 'self.x == 1', "object.metadata.name == 'x'", 'object', '[',
    'request.userInfo', 'has(self.x)', '1/0 == 1', "device.attributes['a.b'].c", 'oldSelf == self', 'AA==', '=',
    'a=b', 'kubernetes.io/metadata.name', 'apps', 'v1', 'xs.a.example', 'a.example', 'v1.a.example', 'pods',
    'pods/status', '*/*', 'Pod', 'Node', 'ClusterIP', 'NodePort', 'LoadBalancer', 'ExternalName', 'TCP', 'UDP',
    'SCTP', 'IPv4', 'IPv6', 'Exists', 'In', 'NotIn', 'Gt', 'Lt', 'None', 'Always', 'Never', 'Fail', 'Ignore',
    'Equivalent', 'Exact', 'CREATE', 'UPDATE', 'NoExecute', 'NoSchedule', 'Opaque', 'kubernetes.io/tls',
    'kubernetes.io/service-account-token', 'kubernetes.io/dockerconfigjson', 'RollingUpdate', 'OnDelete',
    'Recreate', 'Cluster', 'Namespaced', 'Ready', 'True', 'False', 'Unknown', 'Deny', 'Warn', 'Audit',
)  # fmt: skip
NUMBERS: tuple[int | float, ...] = (
    -1, 0, 1, 2, 3, 80, 100, 443, 30001, 65535, 65536, 2147483647, 2147483648, 9223372036854775807,
    -9223372036854775808, 9223372036854775808, 1e+300, 1.5,
)  # fmt: skip
# Values of a wrong type.
ODD: tuple[Any, ...] = (
    None, True, 0, -1, 9223372036854775808, 1.5, '', 'x', '\x00', [], [None], {}, {'': None}, {'a': {'b': {}}},
    [[]],
)  # fmt: skip
ACCEPTS: tuple[str, ...] = (
    '*/*', 'application/json', 'application/yaml', 'application/vnd.kubernetes.protobuf',
    'application/vnd.kubernetes.protobuf', 'application/vnd.kubernetes.protobuf',
    'application/json;as=Table;v=v1;g=meta.k8s.io,application/json', 'x', 'application/cbor',
    'application/json;as=Table;v=v1;g=meta.k8s.io',
    'application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io',
    'application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io',
    'application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io',
    'application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;v=v1;g=meta.k8s.io',
    'application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io',
)  # fmt: skip
PATCHES: tuple[str, ...] = (
    'json-patch+json', 'merge-patch+json', 'strategic-merge-patch+json', 'apply-patch+yaml', 'apply-patch+cbor',
    'x',
)  # fmt: skip
# The texts of strategic merge patches that Kubernetes answers with a 500.
ODD_PATCHES = (
    "unknown patch type: ",
    "does not contain declared merge key",
    "expected a []interface {}",
    "expected a map[string]interface {}",
    "The order in patch list:",
    "list element types are not identical: ",
    "no elements in any of the given slices",
    "is not a map",
    "cannot merge lists without merge key",
    "merging lists cannot yet be specified in the patch",
    "unable to find api field in struct ",
    "merging an object in json but data type is not struct",
    "expected slice or array type",
)
# The texts of 5xx answers that Kubernetes gives too: what it calls for the client is not there, a resourceVersion is no
# number, or a patch is odd.
EXPECTED: tuple[str, ...] = (
    'failed calling webhook', 'failed to call webhook', 'conversion webhook', 'no preferred addresses found',
    'service unavailable', 'no endpoints available', 'error trying to reach service', 'error dialing backend',
    'Too large resource version', 'dial tcp', 'connection refused', 'failed to convert',
    'strconv.ParseUint: ', *ODD_PATCHES,
)  # fmt: skip
# Values of a field by its name, so that more requests come past the first check. Addresses are of this machine.
NAMED: dict[str, tuple[Any, ...]] = {
    'url': ('https://127.0.0.1:1/', 'http://127.0.0.1:1', 'https://[::1]:1/a?b', 'https://', 'x',),
    'jsonPath': ('.spec.x', '.metadata.name', ".spec['a']", '{', '', '.spec.xs[0]',),
    'type': (
        'object', 'array', 'string', 'integer', 'number', 'boolean', 'ClusterIP', 'RollingUpdate', 'OnDelete',
        'x',
    ),
    'name': ('x', 'y', 'default', 'a.b', 'xs.a.example', 'v1.a.example', '10.0.0.1', 'http',),
    'plural': ('xs',),
    'singular': ('x',),
    'listKind': ('XList',),
    'group': ('a.example', 'apps', '', 'rbac.authorization.k8s.io',),
    'version': ('v1', 'v2', '*',),
    'apiVersion': ('v1', 'apps/v1', 'x/y/z', '',),
    'format': ('int32', 'date-time', 'byte', 'ipv4', 'x',),
    'pattern': ('^a+$', '(', '[a-z]', '(a+)+$', '\\p{Greek}', '(?P<n>x)',),
    'labels': ({'a': 'b'}, {'a': 'c'},),
    'matchLabels': ({'a': 'b'}, {'a': 'c'},),
    'namespace': ('default', 'x', '',),
    'resourceVersion': ('', '0', '1', 'x',),
    'uid': ('', 'x',),
    'creationTimestamp': (None,),
    'deletionTimestamp': (None, '2026-11-21T03:48:41Z',),
    'generateName': ('', 'x-',),
    'expression': (
        'true', 'false', "object.metadata.name == 'x'", '1/0 == 1', 'object.spec.x.y', 'variables.x', '[1]',
        'object.?spec.?x.orValue(1) > 0', '[].max() > 1', "object.metadata.labels.all(k, k.matches('('))",
        'dyn(object.spec.replicas) < 99999999999999999999', "'x'.find(1)",
        "authorizer.group('').resource('pods').check('get').allowed()",
        "duration('99999999h') > duration('1h')", "quantity('1x').isLessThan(quantity('1'))",
        "ip('x').isLoopback()", "timestamp('x') > timestamp('y')", '-9223372036854775808 / -1 > 0',
        "url('http://[').getHost() == ''", "object.metadata.name[0] == 'x'", "'a'.split('', -2).size() == 1",
        "'x'.format([object]) == ''", "'%d %.99999999f'.format([1, 2.0]) == ''",
        "oldObject.metadata.name == ''", "params.data.x == ''", "semver('x').major() == 1",
        'optional.of(1) == 1',
    ),
    'rule': (
        'true', 'false', "self.metadata.name == 'x'", '1/0 == 1', 'self.spec.x.y', 'variables.x', '[1]',
        'self.?spec.?x.orValue(1) > 0', '[].max() > 1', "self.metadata.labels.all(k, k.matches('('))",
        'dyn(self.spec.replicas) < 99999999999999999999', "'x'.find(1)",
        "authorizer.group('').resource('pods').check('get').allowed()",
        "duration('99999999h') > duration('1h')", "quantity('1x').isLessThan(quantity('1'))",
        "ip('x').isLoopback()", "timestamp('x') > timestamp('y')", '-9223372036854775808 / -1 > 0',
        "url('http://[').getHost() == ''", "self.metadata.name[0] == 'x'", "'a'.split('', -2).size() == 1",
        "'x'.format([object]) == ''", "'%d %.99999999f'.format([1, 2.0]) == ''",
        "oldObject.metadata.name == ''", "params.data.x == ''", "semver('x').major() == 1",
        'optional.of(1) == 1',
    ),
    'messageExpression': (
        'true', 'false', "object.metadata.name == 'x'", '1/0 == 1', 'object.spec.x.y', 'variables.x', '[1]',
        'object.?spec.?x.orValue(1) > 0', '[].max() > 1', "object.metadata.labels.all(k, k.matches('('))",
        'dyn(object.spec.replicas) < 99999999999999999999', "'x'.find(1)",
        "authorizer.group('').resource('pods').check('get').allowed()",
        "duration('99999999h') > duration('1h')", "quantity('1x').isLessThan(quantity('1'))",
        "ip('x').isLoopback()", "timestamp('x') > timestamp('y')", '-9223372036854775808 / -1 > 0',
        "url('http://[').getHost() == ''", "object.metadata.name[0] == 'x'", "'a'.split('', -2).size() == 1",
        "'x'.format([object]) == ''", "'%d %.99999999f'.format([1, 2.0]) == ''",
        "oldObject.metadata.name == ''", "params.data.x == ''", "semver('x').major() == 1",
        'optional.of(1) == 1',
    ),
    'valueExpression': (
        'true', 'false', "object.metadata.name == 'x'", '1/0 == 1', 'object.spec.x.y', 'variables.x', '[1]',
        'object.?spec.?x.orValue(1) > 0', '[].max() > 1', "object.metadata.labels.all(k, k.matches('('))",
        'dyn(object.spec.replicas) < 99999999999999999999', "'x'.find(1)",
        "authorizer.group('').resource('pods').check('get').allowed()",
        "duration('99999999h') > duration('1h')", "quantity('1x').isLessThan(quantity('1'))",
        "ip('x').isLoopback()", "timestamp('x') > timestamp('y')", '-9223372036854775808 / -1 > 0',
        "url('http://[').getHost() == ''", "object.metadata.name[0] == 'x'", "'a'.split('', -2).size() == 1",
        "'x'.format([object]) == ''", "'%d %.99999999f'.format([1, 2.0]) == ''",
        "oldObject.metadata.name == ''", "params.data.x == ''", "semver('x').major() == 1",
        'optional.of(1) == 1',
    ),
}  # fmt: skip
QUERIES: dict[str, tuple[str, ...]] = {
    'limit': ('0', '1', '2', '-1', 'x', '9223372036854775808',),
    'continue': (
        'x', 'eyJydiI6MX0', 'bnVsbA', 'W10', 'eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJcdTAwMDAifQ',
    ),
    'resourceVersion': ('0', '1', '5', '999999', 'x', '-1',),
    'resourceVersionMatch': ('Exact', 'NotOlderThan', 'x',),
    'labelSelector': ('a', '!a', 'a=b', 'a in (b,c)', 'a notin ()', 'a in (', 'a>1', 'a>x', '%00', ',', 'a=b,,c',),
    'fieldSelector': (
        'metadata.name=x', 'spec.nodeName=n', 'status.phase!=Running', 'type=Opaque', 'spec.x=1', 'a', '=',
    ),
    'watch': ('true', '1', 'false', 'x',),
    'timeoutSeconds': ('1', '-1', 'x',),
    'sendInitialEvents': ('true', 'x',),
    'allowWatchBookmarks': ('true', 'x',),
    'includeObject': ('None', 'Metadata', 'Object', 'x',),
    'pretty': ('true',),
    'dryRun': ('All', 'All', 'x',),
    'fieldManager': ('m', 'n', '', '%00', "m" * 129,),
    'fieldValidation': ('Strict', 'Warn', 'Ignore', 'x',),
    'force': ('true', 'false', 'x',),
    'gracePeriodSeconds': ('0', '1', '-1', 'x',),
    'propagationPolicy': ('Orphan', 'Foreground', 'Background', 'x',),
    'container': ('c', 'x', '',),
    'command': ('x',),
    'path': ('/', 'x',),
    'ports': ('80', 'x',),
    'previous': ('true',),
    'tailLines': ('1', '-1',),
    'sinceTime': ('x', '2026-11-21T03:48:41Z',),
    'stdin': ('true',),
    'stream': ('Stdout', 'x',),
}  # fmt: skip
