# ruff: noqa: E501
"""Jobs and CronJobs, and the reasons why they are refused."""

POD = "spec: {restartPolicy: Never, containers: [{name: a, image: b}]}"
_INDEXED = "completionMode: Indexed, completions: 3"
_MANY = "completionMode: Indexed, completions: 100001"
_LONG = "a" * 65537
_CODES = "podFailurePolicy: {rules: [{action: FailJob, onExitCodes: {%s}}]}"
_RULES = "podFailurePolicy.rules[0]"
_WHEN_MANY = "when completions are above 100000 and used with backoff limit per index"

# The restart policy of its pods, the spec of a Job, and its errors.
SPECS = [
    ("Always", "parallelism: 1", ['spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"']),
    ("OnFailure", "podFailurePolicy: {rules: [{action: Ignore}, {action: FailJob, onExitCodes: {operator: In, values: [0]}}]}", [
        "spec.podFailurePolicy.rules[0]: Invalid value: specifying one of OnExitCodes and OnPodConditions is required",
        "spec.podFailurePolicy.rules[1].onExitCodes.values[0]: Invalid value: 0: must not be 0 for the In operator",
        'spec.template.spec.restartPolicy: Invalid value: "OnFailure": only "Never" is supported when podFailurePolicy is specified']),
    ("Never", "podFailurePolicy: {rules: [{onExitCodes: {}, onPodConditions: [{type: Ready, status: Maybe}]}]}", [
        f'spec.{_RULES}.action: Required value: valid values: ["Count" "FailIndex" "FailJob" "Ignore"]',
        f'spec.{_RULES}.onExitCodes.operator: Required value: valid values: ["In" "NotIn"]',
        f"spec.{_RULES}.onExitCodes.values: Invalid value: []: at least one value is required",
        f'spec.{_RULES}.onPodConditions[0].status: Unsupported value: "Maybe": supported values: "False", "True", "Unknown"',
        f"spec.{_RULES}: Invalid value: specifying both OnExitCodes and OnPodConditions is not supported"]),
    ("Never", "podFailurePolicy: {rules: [{action: Ignore, onPodConditions: [{type: Ready, status: ''}]}]}", []),
    ("Never", _CODES % "operator: In, values: [1, 1]", [
        f"spec.{_RULES}.onExitCodes.values[1]: Duplicate value: 1"]),
    ("Never", _CODES % "operator: NotIn, values: [2, 1], containerName: z", [
        f'spec.{_RULES}.onExitCodes.containerName: Invalid value: "z": must be one of the container or initContainer names in the pod template',
        f"spec.{_RULES}.onExitCodes.values: Invalid value: [2,1]: must be ordered"]),
    ("Never", f"{_CODES % 'operator: In, values: [1]'}, podReplacementPolicy: TerminatingOrFailed", [
        'spec.podReplacementPolicy: Unsupported value: "TerminatingOrFailed": supported values: "Failed"']),
    ("Never", "podReplacementPolicy: Soon", [
        'spec.podReplacementPolicy: Unsupported value: "Soon": supported values: "Failed", "TerminatingOrFailed"']),
    ("Never", f"managedBy: A.io/b c{'d' * 60}", [
        "spec.managedBy: Invalid value: \"A.io\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric "
        "characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
        r"for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
        f'spec.managedBy: Invalid value: "b c{"d" * 60}": Invalid path (regex used for validation is '
        r"'[A-Za-z0-9/\-._~%!$&'()*+,;=:]+')",
        "spec.managedBy: Too long: may not be more than 63 bytes"]),
    ("Never", "managedBy: a.io/b", []),
    ("Never", "maxFailedIndexes: 1", [
        "spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified",
        "spec.maxFailedIndexes: Invalid value: 1: requires indexed completion mode"]),
    ("Never", f"{_INDEXED}, backoffLimitPerIndex: 0, maxFailedIndexes: 4", [
        "spec.maxFailedIndexes: Invalid value: 4: must be less than or equal to completions"]),
    ("Never", _MANY, []),
    ("Never", f"{_MANY}, backoffLimitPerIndex: 1", [
        "spec.maxFailedIndexes: Required value: must be specified when completions is above 100000"]),
    ("Never", f"{_MANY}, backoffLimitPerIndex: 1, maxFailedIndexes: 100001, parallelism: 10001", [
        "spec.maxFailedIndexes: Invalid value: 100001: must be less than or equal to 100000",
        f"spec.parallelism: Invalid value: 10001: must be less than or equal to 10000 {_WHEN_MANY}",
        f"spec.maxFailedIndexes: Invalid value: 100001: must be less than or equal to 10000 {_WHEN_MANY}"]),
    ("Never", "successPolicy: {rules: [{succeededCount: 1}]}", [
        'spec.successPolicy: Invalid value: {"rules":[{"succeededCount":1}]}: requires indexed completion mode']),
    ("Never", f"{_INDEXED}, successPolicy: {{}}", [
        "spec.successPolicy.rules: Required value: at least one rules must be specified when the successPolicy is specified"]),
    ("Never", f"{_INDEXED}, successPolicy: {{rules: [{{}}, {{succeededCount: 4}}, {{succeededIndexes: 0-1, succeededCount: 3}}, {{succeededIndexes: '3'}}]}}", [
        "spec.successPolicy.rules[0]: Required value: at least one of succeededCount or succeededIndexes must be specified",
        "spec.successPolicy.rules[1].succeededCount: Invalid value: 4: must be less than or equal to 3 (the number of specified completions)",
        "spec.successPolicy.rules[2].succeededCount: Invalid value: 3: must be less than or equal to 2 (the number of indexes in the specified succeededIndexes field)",
        'spec.successPolicy.rules[3].succeededIndexes: Invalid value: "3": error parsing succeededIndexes: too large index: "3"']),
    ("Never", f"{_INDEXED}, successPolicy: {{rules: [{{succeededIndexes: {_LONG}}}]}}", [
        "spec.successPolicy.rules[0].succeededIndexes: Too long: may not be more than 65536 bytes",
        f'spec.successPolicy.rules[0].succeededIndexes: Invalid value: "{_LONG}": error parsing succeededIndexes: '
        f'cannot convert string to integer for index: "{_LONG}"']),
]  # fmt: skip

CRON_JOBS = [
    (f"jobTemplate: {{spec: {{manualSelector: false, template: {{{POD}}}}}}}", []),
    (f"jobTemplate: {{spec: {{manualSelector: true, selector: {{}}, template: {{{POD}}}}}}}", [
        "spec.jobTemplate.spec.selector: Invalid value: {}: `selector` will be auto-generated",
        'spec.jobTemplate.spec.manualSelector: Unsupported value: true: supported values: "nil", "false"']),
    (f"timeZone: Asia/../UTC, jobTemplate: {{spec: {{template: {{{POD}}}}}}}", [
        'spec.timeZone: Invalid value: "Asia/../UTC": unknown time zone Asia/../UTC']),
    (f"timeZone: local, jobTemplate: {{spec: {{template: {{{POD}}}}}}}", [
        'spec.timeZone: Invalid value: "local": timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones']),
    (f"timeZone: '', jobTemplate: {{spec: {{template: {{{POD}}}}}}}", [
        'spec.timeZone: Invalid value: "": timeZone must be nil or non-empty string']),
]  # fmt: skip

# The spec of a Job that has its own selector, so that an update may leave out what the server generates.
MANUAL = (
    f"manualSelector: true, selector: {{matchLabels: {{a: b}}}}, template: {{metadata: {{labels: {{a: b}}}}, {POD}}}"
)
_ELASTIC = f"{{spec: {{completionMode: Indexed, completions: %d, parallelism: %d, {MANUAL}}}}}"
_CRON = f"{{metadata: {{name: {'a' * 52}}}, spec: {{schedule: '%s', jobTemplate: {{spec: {{template: {{{POD}}}}}}}}}}}"
UPDATES = [
    ("jobs.batch", _ELASTIC % (2, 2), _ELASTIC % (3, 3), []),
    ("jobs.batch", _ELASTIC % (2, 2), _ELASTIC % (3, 2), [
        "spec.completions: Invalid value: 3: can only be modified in tandem with spec.parallelism"]),
    ("jobs.batch", f"{{spec: {{completions: 1, {MANUAL}}}}}", f"{{spec: {{completions: 2, {MANUAL}}}}}", [
        "spec.completions: Invalid value: 2: field is immutable"]),
    ("cronjobs.batch", _CRON % "* * * * *", _CRON % "TZ=UTC * * * * *", [
        'spec.schedule: Invalid value: "TZ=UTC * * * * *": cannot use TZ or CRON_TZ in schedule, use timeZone field instead']),
]  # fmt: skip
