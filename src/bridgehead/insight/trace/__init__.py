"""Trace: the whole way of one connection, as it should be and as the kernel shows it.

tracing          the whole of it: reads the cluster, resolves the name, hands over to `connection`
connection       the connection to a known destination: expected, made, followed, reported
context          the input of a trace, and what its parts add to the report
capture          makes the connection while nodes capture its packets; `name_lookup` resolves its name
routes           the client's route, and those of the node to backends
node_capture, probing, dns_queries  run in the network namespaces of nodes, pods and outside
program_probes   the same by programs of an image, where no function can run

Without I/O:

target           targets and origins, as the user writes them
origins          the place from which the connection is made
name_resolution  the names that a program's resolver asks for, and the expected answers
destination      the address and port for a target
expected_path    the expected fate at one node: Frontend, backends, the client that they see
policy           why these backends: traffic policies, hints, affinity, source ranges
rule_texts       rules by their handles in nf_tables
observed_path    the events of a traced packet as a journey through chains
verdict          the verdict, the step where the connection died, differences
steps, report, rendering  the numbered steps, the result, and its text
"""
