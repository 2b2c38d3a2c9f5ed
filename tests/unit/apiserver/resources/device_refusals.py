# ruff: noqa: E501
"""ResourceSlices and ResourceClaims, and the reasons why they are refused."""

_POOL = "driver: a.io, pool: {name: p, resourceSliceCount: 1}, nodeName: n"
_IDENTIFIER = (
    "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric "
    "characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is "
    "'[A-Za-z_][A-Za-z0-9_]*')"
)
_LONG = "a" * 100
_LONG_KEY = f"{'a' * 47}...{'a' * 46}"
_UNIT = "spec.devices[0]"
_SIZE = f"{_UNIT}.capacity[size].requestPolicy"
_NO_DEFAULT = "default value is not valid according to the requestPolicy"

# The policy for requests of a part of 8Gi, and its errors.
_POLICIES = [
    ("{default: 2Gi, validValues: [1Gi, 2Gi]}", []),
    ("{}", []),
    (
        "{validValues: [1Gi], validRange: {}}",
        [
            f'{_SIZE}: Forbidden: exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time'
        ],
    ),
    ("{validValues: [1Gi]}", [f"{_SIZE}.default: Required value: required when validValues is defined"]),
    ("{validRange: {}}", [f"{_SIZE}.default: Required value: required when validRange is defined"]),
    (
        "{default: 3Gi, validValues: [2Gi, 16Gi, 2048Mi]}",
        [
            f'{_SIZE}.validValues[2]: Invalid value: "2Gi": values must be sorted in ascending order',
            f'{_SIZE}.validValues[1]: Invalid value: "16Gi": option is larger than capacity value: 8Gi',
            f'{_SIZE}.validValues[2]: Duplicate value: "2147483648"',
            f'{_SIZE}.validValues: Invalid value: "3Gi": {_NO_DEFAULT}',
        ],
    ),
    (
        f"{{default: '1', validValues: [{', '.join(map(repr, map(str, range(1, 12))))}]}}",
        [
            f"{_SIZE}.validValues: Too many: 11: must have at most 10 items",
            f'{_SIZE}.validValues: Invalid value: "1": {_NO_DEFAULT}',
        ],
    ),
    (
        "{default: 1Gi, validRange: {}}",
        [f"{_SIZE}.validRange.min: Required value: required when validRange is defined"],
    ),
    ("{default: 2Gi, validRange: {min: 1Gi, max: 4Gi, step: 512Mi}}", []),
    (
        "{default: 1Gi, validRange: {min: 16Gi, max: 12Gi}}",
        [
            f'{_SIZE}.validRange.min: Invalid value: "16Gi": min is larger than capacity value: 8Gi',
            f'{_SIZE}.validRange.min: Invalid value: "1Gi": default is less than min: 16Gi',
            f'{_SIZE}.validRange.max: Invalid value: "16Gi": min is larger than max: 12Gi',
            f'{_SIZE}.validRange.max: Invalid value: "12Gi": max is larger than capacity value: 8Gi',
        ],
    ),
    (
        "{default: 6Gi, validRange: {min: 1Gi, max: 5Gi, step: 3Gi}}",
        [
            f'{_SIZE}.validRange.max: Invalid value: "6Gi": default is more than max: 5Gi',
            f'{_SIZE}.validRange.step: Invalid value: "6Gi": value is not a multiple of a given step (3Gi) from (1Gi)',
            f'{_SIZE}.validRange.step: Invalid value: "5Gi": value is not a multiple of a given step (3Gi) from (1Gi)',
        ],
    ),
    (
        "{default: 1Gi, validRange: {min: 1Gi, step: 8Gi}}",
        [f'{_SIZE}.validRange.step: Invalid value: "8Gi": one step 9Gi is larger than capacity value: 8Gi'],
    ),
]

_DEVICES = [
    ("attributes: {a/b/c: {int: 1}}", []),
    ("attributes: {/b: {int: 1}, a.io/: {int: 1}}", [
        f'{_UNIT}.attributes[/b]: Invalid value: "": the domain must not be empty',
        f'{_UNIT}.attributes[a.io/]: Invalid value: "": the name must not be empty']),
    (f"attributes: {{{_LONG}: {{int: 1}}}}", [
        f"{_UNIT}.attributes[{_LONG_KEY}]: Too long: may not be more than 32 bytes"]),
    ("attributes: {a: {bools: [true]}}", [
        f'{_UNIT}.attributes[a]: Invalid value: "": exactly one value must be specified']),
    ("capacity: {0a: {value: 1}}", [f'{_UNIT}.capacity[0a]: Invalid value: "0a": {_IDENTIFIER}']),
    ("capacity: {size: {value: 8Gi, requestPolicy: {}}}", [
        f"{_SIZE}: Forbidden: allowMultipleAllocations must be true"]),
    *((f"allowMultipleAllocations: true, capacity: {{size: {{value: 8Gi, requestPolicy: {policy}}}}}", errors)
      for policy, errors in _POLICIES),
    ("bindingConditions: [a.io/x], bindingFailureConditions: [b]", []),
    ("bindingConditions: [a, a], bindingFailureConditions: [a, b, b]", [
        f'{_UNIT}.bindingConditions[1]: Duplicate value: "a"',
        f'{_UNIT}.bindingFailureConditions[0]: Invalid value: "a": bindingFailureConditions must not overlap with bindingConditions',
        f'{_UNIT}.bindingFailureConditions[2]: Duplicate value: "b"']),
    ("bindingConditions: [a, b, c, d, e]", [
        f"{_UNIT}.bindingConditions: Too many: 5: must have at most 4 items",
        f"{_UNIT}.bindingFailureConditions: Invalid value: null: bindingFailureConditions are required to use bindingConditions"]),
    ("bindingFailureConditions: [a]", [
        f"{_UNIT}.bindingConditions: Invalid value: null: bindingConditions are required to use bindingFailureConditions"]),
]  # fmt: skip
SLICES = [
    *((f"{{spec: {{{_POOL}, devices: [{{name: d, {device}}}]}}}}", errors) for device, errors in _DEVICES),
    (f"{{spec: {{{_POOL}, devices: [{', '.join(['{name: d}'] * 129)}]}}}}", [
        "spec.devices: Too many: 129: must have at most 128 items"]),
]  # fmt: skip

_CONFIG = "spec.devices.config[0].opaque.parameters"
_REQUEST = "requests: [{name: a, exactly: {deviceClassName: gpu%s}}]"
# Selectors of devices, and the error.
_LOOPS = "".join(f"[1, 2, 3, 4, 5, 6, 7, 8, 9, 10].all(x{i}, " for i in range(7))
_ATTRIBUTES = "map(string, map(string, any))"
_SELECTORS = [
    ("true", ""),
    ("""device.driver == "a.io" && device.attributes["a.io"].model.startsWith("A")""", ""),
    ("""cel.bind(dra, device.attributes["a.io"], dra.shared && dra.version.isGreaterThan(semver("1.2.3")))""", ""),
    ("""device.capacity["a.io"].memory.compareTo(quantity("16Gi")) >= 0 && !device.allowMultipleAllocations""", ""),
    ("""device.attributes["a.io"].healthy""", ""),
    (f"device.driver == '{'a' * (10240 - 19)}'", ""),
    (f"device.driver == '{'a' * (10240 - 18)}'", "Too long: may not be more than 10240 bytes"),
    (f"{_LOOPS}int('1'.find('[0-9]*')) < 100{')' * 7}", "Forbidden: too complex, exceeds cost limit"),
    ("device.attributes.d.?model.orValue('').matches('^A')", "Forbidden: too complex, exceeds cost limit"),
    ("true || int('x') == 1", "Internal error: program instantiation failed: type conversion error from 'string' to 'int'"),
    ("1", 'Invalid value: "1": must evaluate to bool or the unknown type, not int'),
    ("dyn(true)", 'Invalid value: "dyn(true)": must evaluate to bool or the unknown type, not dyn'),
    ("device.attributes[true].a", 'Invalid value: "device.attributes[true].a": compilation failed: ERROR: <input>:1:18: '
     f"found no matching overload for '_[_]' applied to '({_ATTRIBUTES}, bool)'\n | device.attributes[true].a\n"
     " | .................^"),
    ("", """Invalid value: "": compilation failed: ERROR: <input>:1:0: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"""),
]  # fmt: skip


def _selectors(path):
    """Return lists of one selector, and the errors. `path` is that of the list."""
    for expression, error in _SELECTORS:
        text = expression.replace("'", "''")
        yield f"selectors: [{{cel: {{expression: '{text}'}}}}]", [f"{path}[0].cel.expression: {error}"] if error else []


CLASSES = [(f"{{spec: {{{selectors}}}}}", errors) for selectors, errors in _selectors("spec.selectors")]
CLAIMS = [
    *((f"{{spec: {{devices: {{{_REQUEST % f', {selectors}'}}}}}}}", errors)
      for selectors, errors in _selectors("spec.devices.requests[0].exactly.selectors")),
    *((f"{{spec: {{devices: {{requests: [{{name: a, firstAvailable: [{{name: b, deviceClassName: gpu, {selectors}}}]}}]}}}}}}", errors)
      for selectors, errors in _selectors("spec.devices.requests[0].firstAvailable[0].selectors")),
    *((f"{{spec: {{devices: {{config: [{{opaque: {{driver: a.io, parameters: {parameters}}}}}]}}}}}}", errors)
      for parameters, errors in [
        ("{a: 1}", []),
        ("null", [f"{_CONFIG}: Required value"]),
        ("[]", [f'{_CONFIG}: Invalid value: "<value omitted>": must be a valid JSON object']),
        (f"{{a: {'b' * 10240}}}", [f"{_CONFIG}: Too long: may not be more than 10240 bytes"])]),
    (f"{{spec: {{devices: {{{_REQUEST % ', tolerations: [{operator: Equal, value: a}]'}, constraints: [{{matchAttribute: b}}]}}}}}}", [
        'spec.devices.constraints[0].matchAttribute: Invalid value: "b": a fully qualified name must be a domain and a name '
        "separated by a slash"]),
]  # fmt: skip
