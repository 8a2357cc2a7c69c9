"""Model repositories: writing one around a network, and checking one.

`endcap init` (`cli.init`) calls `plan.make_plan`, which decides everything in this order, and then
`writing.write_repository`:

1. `onnx_file` reads the graph and the exporter's metadata, `companion_config` the files beside it.
   With `--fp16` `trial_run.to_half` converts the network. `network_tensors` reads the image input,
   `input_normalization` what the network does to its pixels first.
2. `trial_run.try_network` runs the network on noise. Where outputs are detections that the network
   has made itself (`detection_rows`), `trial_run.count_score_columns` runs it once more, with the
   scores before its suppression as outputs. Conversion and runs are in child processes
   (`network_worker`) with limits.
3. `head_recognition.recognize_head` decides on the head; `_propose` there shows the order, and
   `docs/init.md` what the user sees of it. The proposals come from `end2end_heads`,
   `detection_rows`, `detr_ssd_heads`, `task_heads`, `grid_heads` and `classifier_head`, which share
   the types and measurements of `head_evidence`. Where outputs are not as postprocess takes them,
   the head says how `graph_edit` changes them. With `--head none` nothing is recognised, and there
   is no postprocess.
4. `preprocess_parameters` and `postprocess_parameters` (with the class names) choose the values to
   write, each with its reason; `network_model` chooses what runs the network.
5. `rendering` makes the texts from the plan and `templates/`; `writing` writes all or nothing.

`batch_outputs` compares runs of several images, and `graph_evidence` finds what trial runs cannot
show, such as a threshold inside the graph. `options` is what the user gives, `head_families` what
is known of each family. `validation` is `endcap validate`. Parameters, tensors and config.pbtxt are
read by `endcap.triton`.
"""

from endcap.repository.errors import RepositoryError

__all__ = ["RepositoryError"]
