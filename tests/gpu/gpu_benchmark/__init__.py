"""Speed of the GPU code, beside torchvision on the same GPU; verified before it is timed."""
