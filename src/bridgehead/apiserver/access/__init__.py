"""Authentication and authorization.

authentication          the user of a request: front proxy, client certificate, static, service account or other token
request_headers         the user whom a front proxy's headers name
bearer_token            the bearer token of a request
static_tokens           reads the file of static tokens
service_account_tokens  signs and verifies service account tokens
token_claims            what these tokens contain, and its checks
jwtissuers/             verifies tokens of other issuers (OpenID Connect)
impersonation           `kubectl --as`
authorization           system:masters, nodes, RBAC
rbac/                   decisions by the stored roles and bindings
node_authorizer         authorization of nodes, by the objects that their pods use
node_relations          these objects, found in the store
"""
