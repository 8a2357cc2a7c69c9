"""Model repositories: writing one around a network, and checking one.

The steps of `endcap init`, a file each:

    onnx_file -> exporter_notes -> network_input -> trial_run -> network_output -> hints
        -> yolo_heads, yolo_extras, head_pairs, other_heads (proposals) -> head (the choice)
        -> class_names, image_recipe, head_recipe, served_outputs
        -> plan (all decisions) -> rendering (texts, by templates/) -> writing

`boxes_and_scores`, `grids`, `grid_head`, `pair_scores` and `anchor_boxes` say what proposals are
made of, and `head_families` what is known of each family. `options` is what the user says,
`decision` a value with its reason. `validation` is `endcap validate`. Parameters, tensors and the
text of config.pbtxt are read by `endcap.triton`.
"""

from endcap.repository.errors import RepositoryError

__all__ = ["RepositoryError"]
