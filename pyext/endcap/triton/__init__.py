"""What Triton's model configuration means: tensors, parameters, labels. A leaf of the library.

`model_config` reads and writes config.pbtxt, and nothing else of the package does;
`model_folder` reads a repository before a server does; `installation` knows the machine's GPUs and
endcap's backends.

`model_contract` returns the tensors that the parameters of endcap's backends determine, from the
core. `stage_settings` reads the parameters of a model.
"""
