"""Operators' tools: doctor, load test, live table of a server, web page."""
