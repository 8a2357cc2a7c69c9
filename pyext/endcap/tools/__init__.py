"""Operators' tools: load test and web page."""
