"""The volumes of pods, and the API objects that they show.

`volume_manager` makes volumes and removes them. `directories` has emptyDirs (those in memory: `memory_size`) and
hostPaths, `persistent` the volumes of claims. The files of a volume are computed by `projected_volumes` (with
`downward_api`) and written by `atomic_writer`; `volume_owners` computes their owner and `chown` sets it.
`referenced_objects` watches ConfigMaps and Secrets, `tokens` requests and renews service account tokens.
"""
