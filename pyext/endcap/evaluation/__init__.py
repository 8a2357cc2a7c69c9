"""Accuracy of a served detector on annotated images, compared with a reference for the same model.

`run` measures: `annotations` reads COCO's files, `categories` matches classes with them, the server
and `reference` detect, `coco` computes the measures and `report` prints them. The reference is ONNX
Runtime between `numpy_images` and `numpy_heads`, which use nothing of endcap's core. `side_by_side`
compares single images for `endcap infer --compare`, `parity` tensors with those of a training.
"""
