"""The kinds of the API group batch.

One module for each kind: `jobs`, `cronjobs`. `job_spec` has the rules of the spec of a Job, also in the template of a
CronJob, `job_status` those of a write of the status.
"""

from .cronjobs import RESOURCE as CRON_JOBS
from .jobs import RESOURCE as JOBS

__all__ = ["CRON_JOBS", "JOBS"]
