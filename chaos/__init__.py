"""The chaos run: faults are injected into a lab while clients and writers use it, and an oracle judges what they saw.

`faults`, `connections`, `schedule`, `effects`, `ledger`, `allocations`, `convergence` and `report` have no I/O; `lab`,
`injectors/`, `workload/`, `observations` and `run` have. The table in `effects`, and in docs/chaos.md, lists what a
fault may do to which client. `servers` is a run of its own, against several API servers on one etcd, whose histories
`linearizability` checks.
"""
