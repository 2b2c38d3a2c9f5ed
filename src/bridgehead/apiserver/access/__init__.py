"""Authentication and authorization.

authentication     the user of a request: client certificate, token file, service account token
tokens             signs and verifies service account tokens
impersonation      `kubectl --as`
authorization      system:masters, nodes, RBAC
rbac/              roles and bindings: decisions, refusal of escalation
node_authorizer    authorization of nodes, by the pods that are bound to them
node_restriction   admission of what nodes write
"""
