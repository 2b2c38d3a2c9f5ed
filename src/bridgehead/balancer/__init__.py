"""Load-balancer addresses of Services: which address a Service gets, which node announces it, and how.

`README.md` describes the packages and the life of an address.
"""
