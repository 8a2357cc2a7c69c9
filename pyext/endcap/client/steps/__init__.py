"""Steps of a served ensemble that a client takes itself, with the server's parameters.

`served_steps` reads the ensemble (`model_config`, what the server says); `client_pipeline` runs the
steps: `chosen_steps` says which are `local_preprocess`, `local_postprocess` or a `remote_step`, and
`tensors` holds what is between them.
"""

from endcap.client.steps.client_pipeline import ClientPipeline
from endcap.client.steps.served_steps import (
    ServedSteps,
    read_served_steps,
    read_served_steps_async,
)

__all__ = ["ClientPipeline", "ServedSteps", "read_served_steps", "read_served_steps_async"]
