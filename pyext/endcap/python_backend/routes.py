"""Which classifier a detection goes to: the parameter `classifiers` of a cascade."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from endcap.errors import InvalidArgumentError

_FORM = "give CLASSES=ROIS_MODEL+CLASSIFIER, for example 0|3=preprocess_rois+classify"
_REST = "*"


@dataclass(frozen=True)
class Route:
    """The model that cuts a detection out of its image, and the one that classifies the crop."""

    rois_model: str
    classifier: str


@dataclass(frozen=True)
class Routes:
    """The route of each class of detections.

    Args:
        by_class: routes by class id.
        rest: the route of all other classes; None where those are not classified.
    """

    by_class: Mapping[int, Route]
    rest: Route | None = None

    def of(self, class_id: int) -> Route | None:
        """Return the route of a class; None where it is not classified."""
        return self.by_class.get(class_id, self.rest)


def parse_routes(text: str) -> Routes:
    """Read routes from text: ``5=preprocess_rois+classify_rings, *=preprocess_rois+classify``.

    Args:
        text: parts with commas between them, each CLASSES=ROIS_MODEL+CLASSIFIER. CLASSES are class
            ids with ``|`` between them, or ``*`` for all that no other part names. Empty text is no
            route at all.

    Raises:
        InvalidArgumentError: a part of another form, and a class that is named twice.
    """
    by_class: dict[int | None, Route] = {}
    for part in text.split(",") if text.strip() else []:
        classes, route = _parse_part(part.strip())
        for class_id in classes:
            if class_id in by_class:
                named = _REST if class_id is None else f"class {class_id}"
                raise InvalidArgumentError(f"classifiers names {named} twice; name it once")
            by_class[class_id] = route
    rest = by_class.pop(None, None)
    return Routes({key: route for key, route in by_class.items() if key is not None}, rest)


def _parse_part(part: str) -> tuple[list[int | None], Route]:
    sides = re.fullmatch(r"([^=]*)=\s*([^=+\s]+)\s*\+\s*([^=+\s]+)", part)
    if sides is None:
        raise InvalidArgumentError(f"classifiers has the part '{part}'; {_FORM}")
    classes = [_parse_class(name.strip(), part) for name in sides[1].split("|")]
    return classes, Route(rois_model=sides[2], classifier=sides[3])


def _parse_class(name: str, part: str) -> int | None:
    if name == _REST:
        return None
    if re.fullmatch("[0-9]+", name) is None or int(name) >= 2**31:
        raise InvalidArgumentError(
            f"classifiers has the class '{name}' in '{part}'; give class ids with | between them, "
            f"or {_REST} for the rest"
        )
    return int(name)
