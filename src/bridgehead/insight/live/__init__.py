"""A live model of a cluster for views: tables of computed rows and a feed of their changes. Read-only.

rows             the rows of Services, endpoints, pods, nodes and Events
row_computation  computes them from objects
object_tables    keeps them: only those that depend on a changed object are computed again
updates          tables, changes of rows, the state of the connection: the values that views receive; JSON
subscriptions    subscriptions: bounded queues of updates, shared between subscribers
cluster          LiveCluster: informers -> rows -> subscriptions
observing        the API client between it and the informers, which records what cannot be read, and why
samples          metrics pages -> counts and histograms
rates            two readings -> rates per second and percentiles
scraping         reads the metrics pages of proxies, DNS servers and the API server while somebody subscribes to them

A view does:

    async with LiveCluster(client) as live:
        with live.subscribe({Table.SERVICES, Table.NODES}) as feed:
            async for update in feed:  # the first one is a snapshot
                send(update.json)
"""
