"""The horizontal pod autoscaler: scales what has a subresource `scale` by metrics.

`horizontal` is the controller. `scale_targets` finds what it scales, `metrics_client` reads metrics (`metric_answers`
parses them), `proposals` makes proposals of them with `replica_counts`; `scaling_limits` limits changes,
`autoscaler_status` writes them down.
"""
