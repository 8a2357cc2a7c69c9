"""Class names as the parameter `labels` of an ensemble holds them."""

from __future__ import annotations

import json

from endcap.errors import InvalidArgumentError


def parse_labels(text: str) -> list[str]:
    """Returns the names by class id.

    text: names with commas between, or a JSON list of texts, which begins with `[`, where a name
    has a comma in it. Raises InvalidArgumentError for a list that is none.
    """
    text = text.strip()
    if not text.startswith("["):
        return [label.strip() for label in text.split(",")] if text else []
    try:
        labels = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidArgumentError(
            f"the labels begin with [ and are no JSON list: {error}; give a list of texts, or "
            "names with commas between"
        ) from error
    for position, label in enumerate(labels):
        if not isinstance(label, str):
            raise InvalidArgumentError(
                f"label {position} of the JSON list is {json.dumps(label)}; give texts only"
            )
    return list(labels)
