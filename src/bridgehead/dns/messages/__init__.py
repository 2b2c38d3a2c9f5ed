"""DNS messages: names, records, and their encoding.

names    domain names as text
records  record sets as values
wire     messages as bytes: queries parsed, answers encoded, replies assembled
foreign  replies of upstreams: checked, parsed, turned into answers
"""
