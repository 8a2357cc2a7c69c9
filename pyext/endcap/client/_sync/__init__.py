"""The pool of shared memory for threads."""
