"""Runner of the checks and benchmarks on a machine with a GPU."""
