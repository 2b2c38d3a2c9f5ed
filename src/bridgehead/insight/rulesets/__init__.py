"""The rules of a node's service proxy, read from its kernel and explained line by line.

entries           a line with its Service, and all of a node's
"""
