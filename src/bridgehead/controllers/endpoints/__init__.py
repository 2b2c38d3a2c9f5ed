"""Controllers for Endpoints and EndpointSlices, and for Events of Services that cannot work.

- Controllers: `endpoints_controller` (with `subsets`), `endpointslice_controller` (with `slice_endpoints`) and
  `mirroring`; both with `slice_plan`, `slice_cache`, `slice_writer`.
- Zone hints: `zone_hints`, with the CPUs of each zone from `zone_cpus`.
- Events of Services in trouble: `service_warnings_controller`, `service_troubles`; `healed_events_controller` deletes
  those of balancers and proxies.
- Pods of a Service: `service_pods`, `selected_pods`, `endpoint_pods`.
- Time of writes: `write_pace`, `trigger_times`.
"""
