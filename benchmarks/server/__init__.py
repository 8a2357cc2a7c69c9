"""On a real Triton server: the compiled models against Python-backend models with OpenCV and NumPy.

Runs in the server's environment (NumPy below 2), which is not that of the other benchmarks.
"""
