"""Costs of the transports from a client to a server, side by side.

`make bench-clients` measures; docs/clients.md says what the transports are and shows the tables.
"""
