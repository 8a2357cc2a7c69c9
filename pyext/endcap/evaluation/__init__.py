"""Accuracy of a served detector on annotated images, compared with a reference for the same model.

`run` measures: `annotations` reads COCO's files, `categories` matches classes with them, the server
and `reference` (OpenCV, NumPy and ONNX Runtime, without endcap's core) detect, `coco` computes the
measures and `report` prints them. `served_reference` makes the reference do what a model repository
says; `side_by_side` compares single images for `endcap infer --compare`. `parity` compares tensors
with those of a training pipeline.
"""
