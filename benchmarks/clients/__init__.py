"""The ways from a client to a server, side by side: what does each cost, and where does it pay?

`make bench-clients` measures; docs/clients.md says what the ways are and shows the tables.
"""
