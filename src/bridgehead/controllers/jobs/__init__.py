"""Controllers for Jobs and CronJobs.

- `job_controller` follows Jobs and their pods and writes; `progress` counts pods, `job_verdicts` decides whether a Job
  has succeeded or failed, `failure_policy` applies `podFailurePolicy`, `job_pods` makes pods.
- `cronjob_controller` creates Jobs at the times that `cron_plan` chooses.
"""
