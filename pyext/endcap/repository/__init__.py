"""Model repositories: writing one around a network, and checking one.

`endcap init` calls `plan.make_plan`, which decides in this order, and `writing.write_repository`:

1. `onnx_file` and `metadata` read what is declared about the network, `network_tensors` its image
   input, `input_normalization` what it does to pixels first.
2. `trial_run` runs it on noise in a child process with limits, `network_worker`.
3. `head_recognition` decides on the head, by the rules of its docstring: the `*_forms` say what the
   outputs may be, `head_evidence` measures values. In doubt the user has to name it.
4. `stage_parameters` chooses class names and parameters, `image_recipe` how images are prepared,
   each with its reason. What is missing is asked for at once.
5. `graph_edit` changes outputs that postprocess does not take unmodified.

`options` is what the user gives, and lists the families of heads. `validation` is `endcap
validate`.
"""

from endcap.repository.errors import RepositoryError

__all__ = ["RepositoryError"]
