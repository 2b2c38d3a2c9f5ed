"""DNS messages: names, records, and their encoding.

domain_names      domain names as text
record_sets       record sets as values
wire              messages as bytes: numbers, names, queries
replies           answers encoded once, and assembled for each query
upstream_replies  replies of upstreams: checked, parsed, turned into answers
"""
