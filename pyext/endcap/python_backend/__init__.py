"""What models of Triton's Python backend are made of; model_repository/*/1/model.py call it.

The way of a request through `preprocess_python` or `postprocess_python`:

    parameters, model_folder -> settings (what the model is) -> tensor_settling (its tensors)
    input_tensors -> the core, one call for all requests -> outputs -> answers, log

`failures` says how an error reads, `answers` and `log` bring it to the client and to the server's
log. Modules that import `triton_python_backend_utils` can be imported by the server's stub only;
the others anywhere.
"""
