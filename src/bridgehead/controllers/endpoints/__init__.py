"""Who answers for a Service.

`endpoints` (decided by `subsets`), `endpointslices` and `mirroring` (`slice_plan`, `slice_cache`, `slice_writer`).
Hints for zones are decided in `zone_hints`, with what `topology` knows.
`service_pods` and `memberships` know whose pods have changed, `endpoint_pods` what a pod contributes, `pace` and
`trigger_times` when to write.
"""
