"""Calls of webhooks: admission webhooks, and conversion webhooks of custom resources.

client             `WebhookClient.post`: a JSON object to a webhook, its answer back, bounded in time and size
webhook_location   where a webhook is: a URL or a Service, and the authorities of its certificate
webhook_transport  HTTPS connections, kept alive; imported with the first call
errors             why a call failed, with the texts of Go's HTTP client and client-go
"""
