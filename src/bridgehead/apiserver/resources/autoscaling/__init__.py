"""HorizontalPodAutoscaler in autoscaling/v2, as which it is stored, and in autoscaling/v1.

    autoscalers         the entry of v2 in the table: names, columns, defaults, rules
    metric_validation   the metrics of a spec
    older_autoscalers   the entry of v1
    older_metrics       the conversion of metrics to those of v1, and back

Other packages import from here.
"""

from .autoscalers import RESOURCE as HORIZONTAL_POD_AUTOSCALERS
from .older_autoscalers import RESOURCE as OLDER_HORIZONTAL_POD_AUTOSCALERS

__all__ = ["HORIZONTAL_POD_AUTOSCALERS", "OLDER_HORIZONTAL_POD_AUTOSCALERS"]
