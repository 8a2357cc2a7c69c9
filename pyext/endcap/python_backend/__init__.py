"""What models of Triton's Python backend are made of; model_repository/*/1/model.py call it.

A request to `preprocess_python` or `postprocess_python`, after `endcap.triton` has read the model's
parameters (`stage_settings`) and completed its tensors (`tensor_completion`):

    input_tensors -> the core, one call for all requests -> outputs -> answers, log

A request to `cascade_bls`, which calls other models (`model_calls`, `bls`), with the routes of
`endcap.triton.cascade_settings`:

    cascade_calls -> detection_rows (which rows) -> crops (in batches)

`cascade` takes these steps for several requests at once, `cascade_stream` for one detection after
another, and `detect_steps` those of `detect_bls`. `declarations` fills in what a config leaves out.

`failures` says how an error reads, `answers` and `log` bring it to the client and to the server's
log. Modules that import `triton_python_backend_utils` can be imported by the server's stub only;
the others anywhere. `settings`, `tensor_settling` and `cascade_settings` are old names.
"""
