"""How fast the GPU paths are, beside torchvision on the same GPU; verified before it is timed."""
