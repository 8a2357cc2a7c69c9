"""The network step on a CPU: `endcap_onnx` beside bare ONNX Runtime, and its rule for threads."""
