"""Authentication and authorization.

authentication     the user of a request: client certificate, token file, service account token
tokens             signs and verifies service account tokens
claims             what these tokens contain, and its checks
jwtissuers/        verifies tokens of other issuers (OpenID Connect)
impersonation      `kubectl --as`
authorization      system:masters, nodes, RBAC
rbac/              decisions by the stored roles and bindings
node_authorizer    authorization of nodes, by the pods that are bound to them
"""
