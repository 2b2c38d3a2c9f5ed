"""A request as it comes and an answer as it goes.

`server` is the HTTPS server, `socket_protocol` and `spdy_upgrade` its connections that become streams. `paths` says
what a request asks for, `user` who makes it, `negotiation` in which form it is answered; `request` is all that for a
handler. `piecewise`, `unsent` and `worker` keep long answers, slow readers and long work from being others' concern.
"""
