"""Speed of the GPU code on the device, beside torchvision, DALI and CV-CUDA: `make bench-gpu`."""
