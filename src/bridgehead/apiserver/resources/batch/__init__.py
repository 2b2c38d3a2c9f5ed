"""The kinds of the API group batch: Job, CronJob."""

from .cronjobs import RESOURCE as CRON_JOBS
from .jobs import RESOURCE as JOBS

__all__ = ["CRON_JOBS", "JOBS"]
