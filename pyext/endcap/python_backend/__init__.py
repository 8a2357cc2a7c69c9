"""Building blocks for models of Triton's Python backend; model_repository/*/1/model.py use them.

A request to `preprocess_python` or `postprocess_python` (`stage_model`), after `endcap.triton` has
read the model's parameters and completed its tensors (`stage_settings`):

    requests -> preprocess_stage, postprocess_stage: one call of the core for all -> responses

A model that calls other models, such as `detect_bls`, sends a `ModelCall` (`bls`).

`failures` has the text and the code of an error; `responses` brings it to the client and to the
server's log. `responses` and `stage_model` import `triton_python_backend_utils` and so can be
imported by the server's stub only, the others anywhere.
"""
