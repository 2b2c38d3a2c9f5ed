"""The chaos run: faults are injected into a lab while clients and writers use it, and an oracle judges what they saw.

Pure: `faults`, `schedule`, `effects`, `ledger`, `allocations`, `convergence`, `report`. I/O: `lab`, `injectors/`,
`workload/`, `observations`, `run`. What a fault may do to which client is the table in `effects`, and in docs/chaos.md.
"""
