"""Mapping of the model's class ids to the annotations' categories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from numpy.typing import NDArray

from endcap.errors import InvalidArgumentError
from endcap.evaluation.annotations import Row

_MAX_NAMED = 8
_ADVICE = (
    "make them agree, choose the other way with --categories-by, or leave out the rest with "
    "--allow-unmatched"
)


class CategoriesBy(str, Enum):
    """How class ids are matched with categories."""

    name = "name"  # a class's label is the category's name
    order = "order"  # class 0 is the category with the lowest id, and so on


@dataclass(frozen=True)
class ClassMap:
    """A mapping of class ids, which count from 0, to category ids.

    Attributes:
        allow_unmatched: Detections of a class without a category are left out instead of an error.
    """

    category_of: Mapping[int, int]
    allow_unmatched: bool

    @property
    def category_ids(self) -> list[int]:
        """The categories that are measured, in order."""
        return sorted(self.category_of.values())

    def as_rows(
        self, image_id: int, boxes_xyxy: NDArray[Any], scores: NDArray[Any], class_ids: NDArray[Any]
    ) -> list[Row]:
        """Return one image's detections as COCO's results: boxes [N, 4], the others [N].

        Raises:
            InvalidArgumentError: For a class id that has no category.
        """
        rows: list[Row] = []
        for box, score, class_id in zip(
            boxes_xyxy.tolist(), scores.tolist(), class_ids.tolist(), strict=True
        ):
            category_id = self.category_of.get(class_id)
            if category_id is not None:
                bbox = [*box[:2], box[2] - box[0], box[3] - box[1]]
                rows.append(
                    {
                        "image_id": image_id,
                        "category_id": category_id,
                        "bbox": bbox,
                        "score": score,
                    }
                )
            elif not self.allow_unmatched:
                raise InvalidArgumentError(
                    f"class id {class_id} came back, and no category of the annotations is that "
                    f"class; {_ADVICE}"
                )
        return rows


def match_categories(
    categories: Mapping[int, str],
    *,
    labels: Sequence[str] | None,
    num_classes: int | None = None,
    by: CategoriesBy | None = None,
    allow_unmatched: bool = False,
) -> ClassMap:
    """Find the category of each class.

    Args:
        categories: Id -> name.
        labels: Names of the classes in the order of their ids, None where the server has none.
        num_classes: Of the model, None where it is not known.
        by: None is by name where there are labels, else by the order of the category ids.
        allow_unmatched: Accept classes without a category, and categories without a class.

    Raises:
        InvalidArgumentError: Labels and num_classes disagree, names are ambiguous, nothing matches,
            or, unless allow_unmatched, a category or a class has no partner.
    """
    if by is None:
        by = CategoriesBy.name if labels else CategoriesBy.order
    if labels and num_classes not in (None, len(labels)):
        raise InvalidArgumentError(
            f"the server has {len(labels)} labels and the reference {num_classes} classes; give "
            "the network that is served, and the ensemble a label for each of its classes"
        )
    count = len(labels) if labels else num_classes
    if by is CategoriesBy.order:
        category_of = dict(list(enumerate(sorted(categories)))[:count])
    elif labels:
        category_of = _by_name(categories, labels)
    else:
        raise InvalidArgumentError(
            "the server gives no labels to match with category names; set the parameter `labels` "
            "of its ensemble, or use --categories-by order"
        )
    matched = set(category_of.values())
    classes = labels or ["class"] * (count or 0)
    alone = [f"{name} ({i})" for i, name in categories.items() if i not in matched]
    others = [f"{name} ({i})" for i, name in enumerate(classes) if i not in category_of]
    if not category_of or (not allow_unmatched and (alone or others)):
        raise InvalidArgumentError(
            f"matched by {by.value}, the model's classes and the annotations' categories do not "
            f"agree (categories without a class: {_listed(alone)}; classes without a category: "
            f"{_listed(others)}); {_ADVICE}"
        )
    return ClassMap(category_of, allow_unmatched)


def _by_name(categories: Mapping[int, str], labels: Sequence[str]) -> dict[int, int]:
    for names, whose in ((categories.values(), "categories"), (labels, "classes")):
        keys = [_key(name) for name in names]
        twice = [name for name, key in zip(names, keys, strict=True) if keys.count(key) > 1]
        if twice:
            raise InvalidArgumentError(
                f"two {whose} are named {twice[0]!r}, so that names cannot tell them apart; use "
                "--categories-by order"
            )
    ids = {_key(name): category_id for category_id, name in categories.items()}
    return {number: ids[_key(label)] for number, label in enumerate(labels) if _key(label) in ids}


def _key(name: str) -> str:
    return name.strip().casefold()


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MAX_NAMED
    shown = ", ".join(names[:_MAX_NAMED]) or "none"
    return f"{shown} and {more} more" if more > 0 else shown
