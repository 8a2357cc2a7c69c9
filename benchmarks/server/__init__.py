"""`make bench-server`: a Triton server, a FastAPI service and a single process under load."""
