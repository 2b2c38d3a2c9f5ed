"""The API server: HTTP -> authentication -> authorization -> admission -> storage.

A request passes these layers from top to bottom. Imports have the same direction (contracts in pyproject.toml):

    serve                   opens files, sockets and the store; runs the server
    stores                  opens a store on etcd; its backup and restoration
    build, bootstrap        connects the parts; creates the objects that every cluster has
    kubernetes_service      the Service `kubernetes`, whose endpoints are the servers alive
    server_leases           which servers of one store are alive
    server_identity         the Lease of a server's identity
    certificate_files       the server's certificates, and reloading of those that change
    clock_skew              warnings about other servers' clocks
    app, exchange           the ASGI application: one request, from its bytes to its answer
    proxying/               requests that go on to other servers: pods, services, nodes, aggregated APIs
    handlers/   streams/    answers: objects, reviews, discovery, OpenAPI; requests that go on to a pod's kubelet
    audit/                  the audit log
    flowcontrol/            priority levels: how many requests are carried out at a time
    customresources/        CustomResourceDefinitions, and the resources that they define
    storedobjects/          objects as a store on etcd has them
    registry/               operations on stored objects: create, update, list, watch
    admission/              plug-ins that check and change what is written
    access/                 authentication and authorization
    webhookclient/          calls of webhooks
    service_endpoints       the servers behind a Service
    bodies/                 request bodies to objects: JSON, YAML, protobuf, patches, schema checks
    metrics/                counts of the server's parts
    http/                   the HTTPS server; path, user and media type of a request
    quotas/                 what objects use, quotas and limits of namespaces
    resources/              Kubernetes' own resources: names, columns, defaults, validation, allocation
    fieldmanagement/  cel/  managers of fields and server-side apply; expressions of rules and policies
    shapes                  types of values: how each is stored, patched and owned
    errors, table, resource types that all layers use: `Status` errors, the table of resources, an entry of it
    field                   the fields of an object under validation, and the errors about them
    go_json, go_patterns, go_sorting, go_times, go_values
                            JSON, patterns, sorting, times and texts of values, as Go has them

Each package lists its modules in its `__init__`; README.md follows a write, a watch and an apply through them.
"""
