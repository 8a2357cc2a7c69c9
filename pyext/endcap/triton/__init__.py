"""What Triton's model configuration means: tensors, parameters, labels. A leaf of the library.

`stage_contract` and `tensor_contract` say which tensors the parameters of endcap's stages make,
`stage_settings` and `cascade_settings` read the parameters of a model, `tensor_completion` fills in
the tensors that a config.pbtxt leaves out.
"""
