"""What models of Triton's Python backend are made of; model_repository/*/1/model.py call it.

The way of a request through `preprocess_python` or `postprocess_python`:

    parameters, model_folder -> settings (what the model is) -> tensor_settling (its tensors)
    input_tensors -> the core, one call for all requests -> outputs -> answers, log

The way of a request through `cascade_bls`, which calls other models (`model_calls`, `bls`):

    cascade_settings, routes -> cascade_calls -> detection_rows (which rows) -> crops (in batches)

`cascade` takes these steps for several requests at once, `cascade_stream` for one detection after
another, and `detect_steps` those of `detect_bls`. `declarations` fills in what a config leaves out.

`failures` says how an error reads, `answers` and `log` bring it to the client and to the server's
log. Modules that import `triton_python_backend_utils` can be imported by the server's stub only;
the others anywhere.
"""
