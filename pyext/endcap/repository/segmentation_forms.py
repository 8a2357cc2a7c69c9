"""Forms of one output with the class of each pixel: semantic segmentation."""

from __future__ import annotations

from collections.abc import Iterator

from endcap.repository.head_evidence import Head, Hints, Outputs
from endcap.repository.network_tensors import OutputEdit
from endcap.repository.options import Decision

_MAX_CLASSES = 256
_MAX_STRIDE = 32  # pixels of the image for one of the output
# Of transformers' networks and of torchvision's.
_USUAL_NAMES = ("logits", "out")
_WHOLE_NUMBERS = ("UINT8", "INT32", "INT64")


def read_semantic(outputs: Outputs, hints: Hints) -> Iterator[Head]:
    """Read logits [C, h, w] of each pixel or block of pixels, or class ids [height, width].

    Other networks have maps as well. Logits are sure only where the user or the metadata say what
    they are or give the number of classes, or by their name; one of several outputs is looked at
    only where that is said.
    """
    is_named = "semantic" in (hints.metadata.task, hints.options.head)
    for output in outputs:
        name, dims = output.name, output.dims
        if len(outputs) > 1 and not is_named and name not in _USUAL_NAMES:
            continue
        sides = zip(dims[1:], hints.size, strict=False)
        covers = all(side <= whole <= side * _MAX_STRIDE for side, whole in sides)
        if output.is_float and len(dims) == 3 and covers and 1 <= dims[0] <= _MAX_CLASSES:
            is_sure = is_named or hints.num_classes == dims[0]
            is_sure |= name in _USUAL_NAMES and dims[0] > 1 and hints.num_classes is None
            reason = f"{name} {list(dims)}: a number for each class and pixel"
            if hints.num_classes not in (None, dims[0]):
                reason += f", and not of {hints.num_classes} classes"
            yield Head("semantic", {"logits": output}, dims[0], reason, is_sure)
            return
        if output.data_type in _WHOLE_NUMBERS and dims[-2:] == hints.size:
            edited = output if len(dims) == 2 else output.edited(OutputEdit(shape=hints.size))
            if edited.values.size == output.values.size:
                parameters = {"class_map": Decision("true", "the network gives class ids")}
                reason = f"{name} {list(dims)}: the class id of each pixel"
                # The trial run does not show all classes.
                yield Head("semantic", {"class_map": edited}, None, reason, parameters=parameters)
                return
