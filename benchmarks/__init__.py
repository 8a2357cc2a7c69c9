"""Side by side with the libraries people use today; results are verified before they are timed.

`make bench` runs everything, `python -m benchmarks --help` says what the parts are.
"""
