"""Controllers for Endpoints and EndpointSlices.

- Controllers: `endpoints_controller` (with `subsets`), `endpointslice_controller` and `mirroring` (with `slice_plan`,
  `slice_cache`, `slice_writer`).
- Zone hints: `zone_hints`, with the CPUs of each zone from `topology`.
- Pods of a Service: `service_pods`, `memberships`, `endpoint_pods`.
- Time of writes: `pace`, `trigger_times`.
"""
