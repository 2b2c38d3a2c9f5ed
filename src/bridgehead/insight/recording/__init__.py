"""Recordings: a file with the objects of a cluster's API, their changes, and the state of its nodes' kernels.

format      the file: entries, lines, and the limits within which a file is read
sources     the kinds that are recorded
cleaning    removal of secrets from objects
redaction   replacement of names and addresses; `with `redacted_addresses` and `vocabulary`
files       reading and atomic writing of a file
recorder    lists and watches of a cluster
replay_plan the writes of a replay: the objects, in `replayed_objects`, and the pods that run, in `stand_ins`
comparison  Frontends of a recording and of its replay
"""
