"""The chaos run of several API servers on one etcd of three members: servers and members fail while clients write.

    models      registers and claims: what a history of one key may look like
    watches     checks of the events of watchers: every change once, in order, and every acknowledged write
    recordings  observations of the clients, and their outages
    report      the verdict, and its part of the report
    answers     the meaning of an HTTP answer, or of none, for a write
    connections one client's HTTP connections to several servers
    clients     clients that write, and record every answer
    watchers    clients that watch, and record every event
    processes   three members in network namespaces of their own, and three servers
    injection   the faults
    run         a run, in namespaces of its own

`models`, `watches`, `recordings`, `answers` and `report` have no I/O.
"""
