"""The cluster DNS: answers for Services and pods by the Kubernetes DNS specification. README.md shows a query's way.

process     one DNS process; `supervisor`: several on one port
instance    one configuration at work: zone, responder, upstreams
corefile/   Corefiles -> settings
zone_sync   informers -> zone
serving/    sockets, the node's address, metrics, query log
answering/  a query -> its reply
upstreams/  queries for external names, and the cache
zone/       the cluster's names and their finished answers
counters    what is counted for each query
config      settings, as values
messages/   DNS messages: names, records, encoding
errors      all errors
"""
