"""Model repositories: writing one around a network, and checking one.

`endcap init` (`cli.init`) calls `plan.make_plan`, which decides everything in this order, and then
`writing.write_repository`:

1. `onnx_file` reads the graph and the exporter's metadata, `companion_config` the files next to it.
   `network_tensors` reads the image input, `input_normalization` what the network does to its
   pixels first.
2. `trial_run` runs the network on noise, in a child process (`network_worker`) with limits.
3. `head_recognition.find_heads` decides on the head: it lists what outputs may be. Each form has a
   reader in `finished_forms`, `pair_forms` or `single_forms`; they share the types and measurements
   of `head_evidence`. Where outputs are not as postprocess takes them, `graph_edit` changes them.
4. `stage_parameters` chooses the class names and the parameters to write, each with its reason, and
   says what is missing.
5. `writing` makes the texts from the plan and `templates/`, and writes all or nothing.

`options` is what the user gives, `head_families` the parameters of each family. `validation` is
`endcap validate`. Parameters, tensors and config.pbtxt are read by `endcap.triton`.
"""

from endcap.repository.errors import RepositoryError

__all__ = ["RepositoryError"]
