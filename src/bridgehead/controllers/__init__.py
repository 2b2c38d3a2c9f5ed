"""The controllers: each compares the desired with the observed state and takes steps until both agree.

`manager` runs the controllers over the `shared_informers`. A module with a controller reads, writes and records
Events; modules without I/O beside it decide. The packages are `workloads`, `stateful`, `jobs`, `scheduling`,
`volumes`, `endpoints`, `nodes`, `certificates`, `serviceaccounts`, `disruption`, `autoscaling`, `namespaces` and
`garbage`. Modules for all of them: `adoption` (owners of pods), `read_your_writes`, `served_kinds` (kinds by name),
`conditions`, `pod_status`.
"""
