"""Who are you, may you.

`authentication` says who (`tokens` signs and checks, `impersonation` comes after it), `authorization` whether he may;
it asks `node_authorizer` about a node. `node_restriction` is admission: it looks into what a node writes.
"""
