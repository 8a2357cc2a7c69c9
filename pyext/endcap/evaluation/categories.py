"""Mapping of the model's class ids to the annotations' categories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from endcap.errors import InvalidArgumentError
from endcap.evaluation.annotations import Row

_MAX_NAMED = 8
_ADVICE = "set the parameter `labels` of the ensemble to the names of the categories"


@dataclass(frozen=True)
class ClassMap:
    """A mapping of class ids, which count from 0, to category ids.

    Attributes:
        by_name: Classes and categories are matched by their names, not by order; then detections
            of a class without a category are left out.
        note: The classes and categories without a partner; "" where all have one.
    """

    category_of: Mapping[int, int]
    by_name: bool = True
    note: str = ""

    @property
    def category_ids(self) -> list[int]:
        """The categories that are measured, in order."""
        return sorted(self.category_of.values())

    def as_rows(
        self, image_id: int, boxes_xyxy: NDArray[Any], scores: NDArray[Any], class_ids: NDArray[Any]
    ) -> list[Row]:
        """Return one image's detections as COCO's results: boxes [N, 4], the others [N].

        Raises:
            InvalidArgumentError: Matched by order, for a class id beyond the categories.
        """
        rows: list[Row] = []
        for box, score, class_id in zip(
            boxes_xyxy.tolist(), scores.tolist(), class_ids.tolist(), strict=True
        ):
            if class_id in self.category_of:
                row = {"image_id": image_id, "category_id": self.category_of[class_id]}
                bbox = [*box[:2], box[2] - box[0], box[3] - box[1]]
                rows.append({**row, "bbox": bbox, "score": score})
            elif not self.by_name:
                raise InvalidArgumentError(
                    f"class id {class_id} came back, and there are {len(self.category_of)} "
                    f"categories; {_ADVICE}"
                )
        return rows


def match_categories(
    categories: Mapping[int, str], *, labels: Sequence[str] | None, num_classes: int | None = None
) -> ClassMap:
    """Find the category of each class: by name, or without labels by the order of category ids.

    Args:
        categories: Id -> name.
        labels: Names of the classes in the order of their ids, None where the server has none.
        num_classes: Of the model, None where it is not known.

    Raises:
        InvalidArgumentError: Labels and num_classes disagree, two categories have one name, or
            nothing matches: no name, or without labels the number of classes.
    """
    if labels and num_classes not in (None, len(labels)):
        raise InvalidArgumentError(
            f"the server has {len(labels)} labels and the reference {num_classes} classes; give "
            "the network that is served, and the ensemble a label for each of its classes"
        )
    if not labels:
        if num_classes not in (None, len(categories)):
            raise InvalidArgumentError(
                f"the model has {num_classes} classes without labels, and the annotations have "
                f"{len(categories)} categories; {_ADVICE}"
            )
        return ClassMap(dict(enumerate(sorted(categories))), by_name=False)
    ids = {_key(name): category_id for category_id, name in categories.items()}
    if len(ids) < len(categories):
        raise InvalidArgumentError(
            "two categories have the same name, so that labels cannot tell them apart; rename one"
        )
    keys = [_key(label) for label in labels]
    category_of = {number: ids[key] for number, key in enumerate(keys) if key in ids}
    alone = [f"{name} ({i})" for i, name in categories.items() if _key(name) not in keys]
    others = [f"{name} ({i})" for i, name in enumerate(labels) if i not in category_of]
    note = ""
    if alone or others:
        note = (
            "labels and categories do not agree (categories without a class: "
            f"{_join_names(alone)}; classes without a category: {_join_names(others)})"
        )
    if not category_of:
        raise InvalidArgumentError(f"{note}; {_ADVICE}")
    return ClassMap(category_of, note=note and f"{note}, and these are not measured")


def _key(name: str) -> str:
    return name.strip().casefold()


def _join_names(names: Sequence[str]) -> str:
    more = len(names) - _MAX_NAMED
    shown = ", ".join(names[:_MAX_NAMED]) or "none"
    return f"{shown} and {more} more" if more > 0 else shown
