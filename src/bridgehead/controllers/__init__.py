"""The controllers: each compares what is wanted with what is there, and takes the next step until both agree.

`manager` runs them over the informers of `shared`. A module with a controller reads, writes and says so in Events; what
it decides is in pure modules beside it. `workloads`, `scheduling`, `endpoints`, `nodes` and `namespaces` each say what
is in them; `claims` (who owns an object), `latest` (what was written but not yet seen) and `conditions` serve them all.
"""
