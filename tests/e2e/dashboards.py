"""Metrics that published dashboards, rules and alerts read, by the part that has them.

The names come from kubernetes-mixin and kube-prometheus (API server, kubelet, cAdvisor, kube-proxy, controllers,
client-go), CoreDNS' mixin and MetalLB's rules, without the suffixes of histograms.
"""

from __future__ import annotations

from typing import Final

_PROCESS = ("process_cpu_seconds_total", "process_resident_memory_bytes", "process_start_time_seconds")
_CLIENT = ("rest_client_requests_total", "rest_client_request_duration_seconds")
_QUEUES = (
    *("workqueue_adds_total", "workqueue_depth", "workqueue_queue_duration_seconds", "workqueue_retries_total"),
    "workqueue_work_duration_seconds",
)

READ: Final[dict[str, tuple[str, ...]]] = {
    "apiserver": (
        *_PROCESS,
        *("kubernetes_build_info", "go_goroutines", "aggregator_unavailable_apiservice"),
        "aggregator_unavailable_apiservice_total",
        "apiserver_client_certificate_expiration_seconds",
        "apiserver_current_inflight_requests",
        "apiserver_flowcontrol_current_executing_seats",
        "apiserver_flowcontrol_current_inqueue_requests",
        "apiserver_flowcontrol_nominal_limit_seats",
        "apiserver_longrunning_requests",
        "apiserver_request_duration_seconds",
        "apiserver_request_sli_duration_seconds",
        "apiserver_request_slo_duration_seconds",
        "apiserver_request_terminations_total",
        "apiserver_request_total",
        "apiserver_storage_objects",
        "apiserver_watch_events_total",
        *("authenticated_user_requests", "authentication_attempts", "authorization_attempts_total"),
        "etcd_request_duration_seconds",
        *("workqueue_adds_total", "workqueue_depth", "workqueue_queue_duration_seconds"),
    ),
    "apiserver/slis": ("kubernetes_healthcheck", "kubernetes_healthchecks_total"),
    "controllers": (*_PROCESS, *_CLIENT, *_QUEUES, "kubernetes_build_info", "go_goroutines"),
    "kubelet": (
        *_PROCESS,
        *_CLIENT,
        *("kubernetes_build_info", "go_goroutines", "kubelet_node_name", "kubelet_running_pods"),
        *("kubelet_running_containers", "kubelet_node_config_error", "kubelet_evictions"),
        "kubelet_runtime_operations_total",
        "kubelet_runtime_operations_errors_total",
        "kubelet_runtime_operations_duration_seconds",
        *("kubelet_pod_start_duration_seconds", "kubelet_pod_worker_duration_seconds"),
        *("kubelet_started_pods_total", "kubelet_started_containers_total"),
        *("kubelet_cgroup_manager_duration_seconds", "kubelet_pleg_relist_duration_seconds"),
        "kubelet_pleg_relist_interval_seconds",
        "kubelet_certificate_manager_client_ttl_seconds",
        "kubelet_certificate_manager_server_ttl_seconds",
        "kubelet_certificate_manager_client_expiration_renew_errors",
        "kubelet_server_expiration_renew_errors",
        *("storage_operation_duration_seconds", "storage_operation_errors_total", "volume_manager_total_volumes"),
        *("kubelet_volume_stats_available_bytes", "kubelet_volume_stats_capacity_bytes"),
        *("kubelet_volume_stats_inodes", "kubelet_volume_stats_inodes_used", "kubelet_volume_stats_used_bytes"),
    ),
    "kubelet/cadvisor": (
        "container_cpu_usage_seconds_total",
        *("container_cpu_cfs_periods_total", "container_cpu_cfs_throttled_periods_total"),
        *("container_memory_working_set_bytes", "container_memory_rss", "container_memory_swap"),
        *("container_memory_cache", "container_memory_usage_bytes"),
        *("container_network_receive_bytes_total", "container_network_receive_packets_total"),
        *("container_network_receive_packets_dropped_total", "container_network_transmit_bytes_total"),
        *("container_network_transmit_packets_total", "container_network_transmit_packets_dropped_total"),
        *("container_fs_reads_bytes_total", "container_fs_writes_bytes_total"),
        *("container_fs_reads_total", "container_fs_writes_total"),
        *("machine_cpu_cores", "machine_memory_bytes", "container_start_time_seconds", "container_last_seen"),
    ),
    "kubelet/probes": ("prober_probe_total", "prober_probe_duration_seconds"),
    "kubelet/resource": (
        *("container_cpu_usage_seconds_total", "container_memory_working_set_bytes", "container_start_time_seconds"),
        *("node_cpu_usage_seconds_total", "node_memory_working_set_bytes", "node_swap_usage_bytes"),
        *("pod_cpu_usage_seconds_total", "pod_memory_working_set_bytes", "resource_scrape_error"),
    ),
    "kubelet/slis": ("kubernetes_healthcheck", "kubernetes_healthchecks_total"),
    "kube-proxy": (
        *_PROCESS,
        *_CLIENT,
        *("kubernetes_build_info", "go_goroutines"),
        "kubeproxy_network_programming_duration_seconds",
        "kubeproxy_sync_proxy_rules_duration_seconds",
        "kubeproxy_sync_proxy_rules_endpoint_changes_pending",
        "kubeproxy_sync_proxy_rules_endpoint_changes_total",
        "kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds",
        "kubeproxy_sync_proxy_rules_last_timestamp_seconds",
        "kubeproxy_sync_proxy_rules_no_local_endpoints_total",
        "kubeproxy_sync_proxy_rules_service_changes_pending",
        "kubeproxy_sync_proxy_rules_service_changes_total",
    ),
    "coredns": (
        *_PROCESS,
        *("coredns_build_info", "coredns_panics_total", "coredns_plugin_enabled", "go_goroutines"),
        *("coredns_dns_requests_total", "coredns_dns_responses_total", "coredns_dns_request_duration_seconds"),
        *("coredns_dns_request_size_bytes", "coredns_dns_response_size_bytes", "coredns_dns_do_requests_total"),
        *("coredns_cache_entries", "coredns_cache_hits_total", "coredns_cache_misses_total"),
        *("coredns_forward_healthcheck_broken_total", "coredns_forward_max_concurrent_rejects_total"),
        *("coredns_forward_requests_total", "coredns_proxy_request_duration_seconds"),
        *("coredns_kubernetes_dns_programming_duration_seconds", "coredns_reload_failed_total"),
    ),
}

# Metrics that no part has here, and why.
ABSENT: Final[dict[str, str]] = {
    "go_goroutines": "there is no Go here",
    "aggregator_unavailable_apiservice": "the condition Available of an APIService has it",
    "aggregator_unavailable_apiservice_total": "the condition Available of an APIService has it",
    "apiserver_request_slo_duration_seconds": "Kubernetes 1.27 replaced it by apiserver_request_sli_duration_seconds",
    "etcd_request_duration_seconds": "the store is no etcd; bridgehead_store_commit_duration_seconds is its equal",
    "apiserver/workqueue": "the API server follows its store without work queues",
    "kubelet_node_config_error": "Kubernetes 1.24 removed it with dynamic configuration",
    "kubelet_cgroup_manager_duration_seconds": "the runtime, not the kubelet, writes cgroups",
    "kubelet_pleg_relist_duration_seconds": "the runtime reports exits; nothing is listed again to find them",
    "kubelet_pleg_relist_interval_seconds": "the runtime reports exits; nothing is listed again to find them",
    "kubelet_certificate_manager_client_ttl_seconds": "the kubelet does not rotate certificates",
    "kubelet_certificate_manager_server_ttl_seconds": "the kubelet does not rotate certificates",
    "kubelet_certificate_manager_client_expiration_renew_errors": "the kubelet does not rotate certificates",
    "kubelet_server_expiration_renew_errors": "the kubelet does not rotate certificates",
    "storage_operation_duration_seconds": "volumes are set up with their pod, in kubelet_pod_worker_duration_seconds",
    "storage_operation_errors_total": "volumes that are not set up have FailedMount Events",
    "container_cpu_cfs_periods_total": "only a cgroup with the controller cpu has it",
    "container_cpu_cfs_throttled_periods_total": "only a cgroup with the controller cpu has it",
    "container_memory_cache": "only a cgroup with the controller memory has it",
    "container_fs_reads_total": "only a cgroup with the controller io has it",
    "container_fs_writes_total": "only a cgroup with the controller io has it",
    "coredns_dns_do_requests_total": "queries are answered from finished answers without a look at the bit DO",
}
