"""Authentication and authorization.

authentication   the user of a request: client certificate, token file, service account token
credentials      the bearer token of a request
tokens           signs and verifies service account tokens
token_claims     what these tokens contain, and its checks
jwtissuers/      verifies tokens of other issuers (OpenID Connect)
impersonation    `kubectl --as`
authorization    system:masters, nodes, RBAC
rbac/            decisions by the stored roles and bindings
node_authorizer  authorization of nodes, by the objects that their pods use
node_relations   these objects, found in the store
"""
