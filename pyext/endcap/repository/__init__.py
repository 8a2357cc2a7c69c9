"""Model repositories: writing one around a network, and checking one.

The way of `endcap init`, a file a step:

    onnx_file -> exporter_notes -> network_input -> trial_run -> network_output -> hints
        -> yolo_heads, yolo_extras, head_pairs, other_heads (proposals) -> head (the choice)
        -> class_names, image_recipe, head_recipe, served_outputs
        -> plan (all decisions) -> rendering (texts, by templates/) -> writing

`boxes_and_scores`, `grids`, `grid_head`, `pair_scores` and `anchor_boxes` say what proposals are
made of. `options` is what the user says, `decision` a value with its reason, `contracts` what the
core says of parameters. `validation` is `endcap validate`, with `pbtxt_lines` for the lines.
"""

from endcap.repository.errors import RepositoryError

__all__ = ["RepositoryError"]
