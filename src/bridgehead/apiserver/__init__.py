"""The Kubernetes API: HTTP -> who are you -> may you -> admission -> storage.

A request goes from top to bottom and imports go the same way (held by the contracts in pyproject.toml):

    serve                   opens what the server needs, runs it
    build, bootstrap        puts it together; what must be there before the first client
    app                     one request, from its bytes to its answer
    handlers/   streams/    the answer: objects, reviews, discovery ...; what goes on to the pod's kubelet
    access/     registry/   who are you, may you; the objects that are stored: admit, validate, commit, list, watch
    bodies/                 bytes -> object: JSON, YAML, protobuf, patches, the schema
    http/                   the HTTPS server; a request's path, user and form
    resources/              the table: what is special to one resource
    errors, resource        what all of them speak of: a `Status`, an entry of the table

Each package says in its `__init__` what its modules are for.
"""
