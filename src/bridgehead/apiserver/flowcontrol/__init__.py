"""Priority and fairness: how many requests of each priority level are carried out at a time.

    matching.py            FlowSchemas: which one a request belongs to, and its flow
    levels.py              priority levels: seats, the queues of requests that wait for one, and the pool of lent seats
    limits.py              the limits of each level
    dangling_condition.py  the condition Dangling of a FlowSchema
    metrics.py             seats, waiting and refused requests
    apf_controller.py      the configuration in force, kept up to date

`app` calls `FlowControl.classify` for each request, and takes a seat for the time in which the request is handled.
Simpler than Kubernetes: every request takes one seat, lent seats go at once to the level that asks for one instead of
following the demand of the last seconds, and the flows of a level take turns instead of being dealt to queues.
Source: Kubernetes "API Priority and Fairness", apiserver/pkg/util/flowcontrol.
"""
