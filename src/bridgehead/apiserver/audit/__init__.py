"""The audit log: events about requests, as lines of JSON, by the rules of a policy file.

    trail         the hooks that the application calls for each request; these do nothing
    auditor       the hooks of a server with a policy; begins the trail of each request
    audit_events  the content of events
    audit_policy  audit.k8s.io/v1 Policy: its file, its rules
    log_file      the log file, written in a thread and rotated

All but `trail` are imported only when there is a policy.
Source: Kubernetes "Auditing", apiserver/pkg/audit, apiserver/pkg/endpoints/filters/audit.go.
"""
