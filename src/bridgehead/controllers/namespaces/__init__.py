"""Controllers for the content of namespaces, and the garbage collector.

`namespaces` (with `namespace_conditions`), `serviceaccounts`, `account_tokens`, `root_ca`, `garbage` (with
`ownership`).
"""
