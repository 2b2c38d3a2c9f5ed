"""The gateway of a lab: links between the lab's network and the machine, for `up --host-routes` and `up --outside`.

addressing    names and addresses of the links
clashes       reasons why the machine cannot have routes to a lab
ruleset       the packet filter of the gateway
description   sentences for users
machine       the machine's links, routes, name servers and programs; the checks before `up` changes anything
building      the network namespace of the gateway; its links and routes, the lab's and the machine's
user_mode     the program that carries connections to the outside (slirp4netns)
resolver      the machine's resolver (systemd-resolved)
process       the process beside the lab that is the gateway, and with which all of this ends
gateway_lock  the lock that it holds
"""
