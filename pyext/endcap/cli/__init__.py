"""The command line: one module per command, `app.py` is the table of contents."""
