"""Forms of one output with the class of each pixel: semantic segmentation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from endcap.repository.head_evidence import Head, Hints, Outputs
from endcap.repository.network_tensors import NetworkOutput, OutputEdit
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
    metadata, options = hints.metadata, hints.options
    is_named = "semantic" in (metadata.task, options.head)
    for output in outputs:
        name, dims = output.name, list(output.dims)
        if len(outputs) > 1 and not is_named and name not in _USUAL_NAMES:
            continue
        if output.is_float and len(dims) == 3 and _cover(dims[1:], hints.size):
            classes = dims[0]
            if not 1 <= classes <= _MAX_CLASSES:
                continue
            is_sure = is_named or hints.num_classes == classes
            is_sure |= name in _USUAL_NAMES and classes > 1 and hints.num_classes is None
            reason = f"{name} {dims}: a number for each class and pixel"
            yield Head("semantic", {"logits": output}, classes, reason, is_sure)
            return
        if output.data_type in _WHOLE_NUMBERS and tuple(dims[-2:]) == hints.size:
            edited = output if len(dims) == 2 else output.edited(OutputEdit(shape=hints.size))
            if edited.values.size == output.values.size:
                yield _class_map(edited, output)
                return


def _class_map(output: NetworkOutput, original: NetworkOutput) -> Head:
    return Head(
        "semantic",
        {"class_map": output},
        None,  # the trial run does not show all of them
        f"{original.name} {list(original.dims)}: the class id of each pixel",
        parameters={"class_map": Decision("true", "the network gives class ids")},
    )


def _cover(sides: Sequence[int], size: tuple[int, int]) -> bool:
    """Return whether an output has a pixel for each 1 to 32 pixels of the image, each way."""
    return all(side <= whole <= side * _MAX_STRIDE for side, whole in zip(sides, size, strict=True))
