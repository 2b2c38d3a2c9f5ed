"""What namespaces and owners hold: `namespaces` (`namespace_conditions`), `serviceaccounts`, `root_ca`, `garbage`
(`ownership`).
"""
