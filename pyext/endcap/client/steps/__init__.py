"""Steps of a served ensemble that a client takes itself, with the server's parameters.

`served_steps` reads the ensemble (`model_config`, what the server says); `steps_road` goes the way:
`chosen_steps` says which steps are `local_preprocess`, `local_postprocess` or a `remote_step`, and
`tensors` holds what is between them.
"""

from endcap.client.steps.served_steps import (
    ServedSteps,
    read_served_steps,
    read_served_steps_async,
)
from endcap.client.steps.steps_road import ClientStepsRoad

__all__ = ["ClientStepsRoad", "ServedSteps", "read_served_steps", "read_served_steps_async"]
