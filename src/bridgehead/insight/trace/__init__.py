"""Trace: the whole way of one connection, as it should be and as the kernel shows it.

target           targets and origins, as the user writes them
name_resolution  the names that a program's resolver asks for, and the expected answers
path             the expected fate at one node: Frontend, backends, the client that they see
policy           why these backends: traffic policies, hints, affinity, source ranges
rule_texts       rules by their handles in nf_tables
seen             the events of a traced packet as a journey through chains
report           the result: verdict, differences, numbered steps
judgment         facts, expectation and observation become a report
rendering        a report as text
dns_queries      asks a DNS server, in some network namespace
probing          makes the one connection, in some network namespace
listening        traces the connection at a node
tracing          reads, probes and listens; calls the pure modules
"""
