"""Authentication and authorization.

authentication     the user of a request: client certificate, token file, service account token
tokens             signs and verifies service account tokens
impersonation      `kubectl --as`
authorization      the built-in policy, in RBAC's vocabulary
node_authorizer    authorization of nodes, by the pods that are bound to them
"""
