"""Model repositories: writing one around a network, and checking one.

`endcap init` (`cli.init`) calls `plan.make_plan`, which decides everything in this order, and then
`writing.write_repository`:

1. `onnx_file` reads the graph, `metadata` what its exporter and the files next to it declare.
   `network_tensors` reads the image input, `input_normalization` what the network does to its
   pixels first.
2. `trial_run` runs the network on noise, in a child process (`network_worker`) with limits. Outputs
   get their shapes and values from it.
3. `head_recognition.find_heads` decides on the head. It asks `finished_forms`, `pair_forms`,
   `single_forms` and `segmentation_forms` what the outputs may be, by the metadata, names, shapes,
   the end of the graph, and for what these leave open by the values, which `head_evidence`
   measures. A head that the metadata or the values leave in doubt is not taken: the user names it.
4. `stage_parameters` chooses the class names and the parameters to write, each with its reason, and
   `image_recipe` how images are prepared. What is missing is asked for at once.
5. `graph_edit` changes outputs that are not as postprocess takes them. `writing` makes the texts
   from the plan and `templates/`, and writes all or nothing.

`options` is what the user gives, and lists the families of heads. `validation` is `endcap
validate`. Parameters, tensors and config.pbtxt are read by `endcap.triton`.
"""

from endcap.repository.errors import RepositoryError

__all__ = ["RepositoryError"]
