"""`make bench`: files to tensors, heads to detections and suppression, on the CPU."""
