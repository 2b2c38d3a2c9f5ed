"""Recordings: a file with the objects of a cluster's API, their changes, and the state of its nodes' kernels.

format      the file: entries, lines, and the limits within which a file is read (pure)
sources     the kinds that are recorded (pure)
cleaning    removal of secrets from objects (pure)
redaction   replacement of names and addresses (pure); `redacted_addresses` and `known_words` belong to it
files       reading and atomic writing of a file
recorder    lists and watches of a cluster
rebuilding  the objects that a replay creates for a recording (pure)
comparison  Frontends of a recording and of its replay (pure)
"""
