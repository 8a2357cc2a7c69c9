"""Mapping of the model's class ids to the annotations' categories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from endcap.errors import InvalidArgumentError
from endcap.evaluation.annotations import Floats, ImagePredictions, Integers

_NAMED_AT_MOST = 8
_ADVICE = (
    "make them agree, choose another way with --categories-by, or leave out what has no partner "
    "with --allow-unmatched"
)


class CategoriesBy(str, Enum):
    """How class ids are matched with categories."""

    name = "name"  # a class's label is the category's name
    order = "order"  # class 0 is the category with the lowest id, and so on
    id = "id"  # a class id is the category's id


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

    def predictions(
        self, boxes_xyxy: Floats, scores: Floats, class_ids: Integers
    ) -> ImagePredictions:
        """Return one image's detections by category: boxes [N, 4] as corners, the others [N].

        Raises:
            InvalidArgumentError: For a class id that has no category.
        """
        known = np.isin(class_ids, list(self.category_of))
        if not known.all() and not self.allow_unmatched:
            raise InvalidArgumentError(
                f"class id {class_ids[~known][0]} came back, and no category of the annotations is "
                f"that class; {_ADVICE}"
            )
        boxes, kept = boxes_xyxy[known].astype(np.float64), class_ids[known].tolist()
        return ImagePredictions(
            boxes_xywh=np.concatenate([boxes[:, :2], boxes[:, 2:] - boxes[:, :2]], axis=1),
            scores=scores[known].astype(np.float64),
            category_ids=np.array([self.category_of[each] for each in kept], np.int64),
        )


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
        InvalidArgumentError: Labels and num_classes disagree, where nothing matches, and, unless
            allow_unmatched, with a list of the categories without a class and the classes without a
            category.
    """
    if by is None:
        by = CategoriesBy.name if labels else CategoriesBy.order
    if labels and num_classes not in (None, len(labels)):
        raise InvalidArgumentError(
            f"the server has {len(labels)} labels and the reference {num_classes} classes; give "
            "the network that is served, and the ensemble a label for each of its classes"
        )
    count = len(labels) if labels else num_classes
    if by is CategoriesBy.name:
        if not labels:
            raise InvalidArgumentError(
                "the server gives no labels to match with category names; set the parameter "
                "`labels` of its ensemble, or use --categories-by order"
            )
        category_of = _by_name(categories, labels)
    elif by is CategoriesBy.order:
        category_of = dict(enumerate(sorted(categories)))
    else:
        category_of = {category_id: category_id for category_id in categories}
    if count is not None:
        category_of = {each: category_of[each] for each in category_of if 0 <= each < count}
    _check(categories, category_of, labels, count, by=by, allow_unmatched=allow_unmatched)
    return ClassMap(category_of, allow_unmatched)


def _by_name(categories: Mapping[int, str], labels: Sequence[str]) -> dict[int, int]:
    ids: dict[str, int] = {}
    for category_id, name in categories.items():
        if ids.setdefault(_key(name), category_id) != category_id:
            raise InvalidArgumentError(
                f"two categories are named {name!r}, so that names cannot tell them apart; use "
                "--categories-by order or id"
            )
    names = [_key(label) for label in labels]
    for label, name in zip(labels, names, strict=True):
        if name in ids and names.count(name) > 1:
            raise InvalidArgumentError(
                f"two classes of the server have the label {label!r}, so that names cannot tell "
                "them apart; use --categories-by order or id"
            )
    return {class_id: ids[name] for class_id, name in enumerate(names) if name in ids}


def _key(name: str) -> str:
    return name.strip().casefold()


def _check(
    categories: Mapping[int, str],
    category_of: Mapping[int, int],
    labels: Sequence[str] | None,
    count: int | None,
    *,
    by: CategoriesBy,
    allow_unmatched: bool,
) -> None:
    matched = set(category_of.values())
    unmatched_categories = [f"{name} ({i})" for i, name in categories.items() if i not in matched]
    unmatched_classes = [
        f"{labels[class_id] if labels else 'class'} ({class_id})"
        for class_id in range(count or 0)
        if class_id not in category_of
    ]
    if category_of and (allow_unmatched or not (unmatched_categories or unmatched_classes)):
        return
    problems = [
        f"{kind}: {_listed(unmatched)}"
        for unmatched, kind in (
            (unmatched_categories, "categories without a class"),
            (unmatched_classes, "classes without a category"),
        )
        if unmatched
    ]
    raise InvalidArgumentError(
        f"matched by {by.value}, the model's classes and the annotations' categories do not "
        f"agree ({'; '.join(problems)}); {_ADVICE}"
    )


def _listed(names: list[str]) -> str:
    more = len(names) - _NAMED_AT_MOST
    shown = ", ".join(names[:_NAMED_AT_MOST])
    return f"{shown} and {more} more" if more > 0 else shown
