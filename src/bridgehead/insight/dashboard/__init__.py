"""The page of a cluster in a browser: a live map, Services, nodes, Events. On loopback, behind a token, read-only.

access      the token, the hosts and origins that are served, the headers of answers
history     figures of the last minutes, in rings of one size
manifests   objects as YAML; never Secrets
service_paths the path of a connection through a node, as a page draws it
dns_records   the names of a Service and their records
connection_counts  connections by Service and backend
flow_watch  repeats the count of connections while somebody looks at it
shared_readings  readings that several pages share
questions   answers to what a page asks about one Service, node or object; errors
browsers    one open page: updates of the live model, without a queue that grows
server      HTTP and WebSockets: files of `static/`, questions, feeds

`static/` is built from `dashboard/` by `scripts/build-dashboard` and is committed.
"""
