"""Outlines of the six object classes, as polygons around the origin."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

CLASS_NAMES = ("circle", "square", "triangle", "star", "cross", "ring")

Points = npt.NDArray[np.float64]


def outline(rng: np.random.Generator, class_id: int) -> list[Points]:
    """Polygons of one randomly deformed shape of the class.

    Args:
        rng: source of the proportions, the rotation and the deformation.
        class_id: index into `CLASS_NAMES`.

    Returns:
        Closed polygons, float64 [P, 2] (x, y), within about one unit of the origin. The second
        polygon, if there is one, is a hole in the first.

    Raises:
        ValueError: `class_id` is not an index into `CLASS_NAMES`.
    """
    if not 0 <= class_id < len(CLASS_NAMES):
        raise ValueError(
            f"class_id is {class_id}; it must be between 0 and {len(CLASS_NAMES) - 1}."
        )
    deform = _deformation(rng)
    return [polygon @ deform.T for polygon in _upright(rng, CLASS_NAMES[class_id])]


def _upright(rng: np.random.Generator, name: str) -> list[Points]:
    if name == "circle":
        return [_regular(96)]
    if name == "square":
        return [_regular(4)]
    if name == "triangle":
        return [_regular(3) * np.array([rng.uniform(0.85, 1.1), 1.0])]
    if name == "star":
        return [_star(rng.uniform(0.38, 0.48))]
    if name == "cross":
        return [_cross(rng.uniform(0.24, 0.34))]
    return [_regular(96), _regular(96) * rng.uniform(0.5, 0.74)]


def _regular(corners: int) -> Points:
    angle = np.linspace(0.0, 2.0 * np.pi, corners, endpoint=False)
    return np.stack([np.sin(angle), -np.cos(angle)], axis=1)


def _star(inner_radius: float) -> Points:
    points = _regular(10)
    points[1::2] *= inner_radius
    return points


def _cross(half_width: float) -> Points:
    arm = np.array([[-half_width, -1.0], [half_width, -1.0], [half_width, -half_width]])
    quarter_turn = np.array([[0.0, -1.0], [1.0, 0.0]])
    arms = [arm]
    for _ in range(3):
        arms.append(arms[-1] @ quarter_turn.T)
    return np.concatenate(arms)


def _deformation(rng: np.random.Generator) -> Points:
    """Return a rotation by any angle after a mild stretch and shear."""
    angle = rng.uniform(0.0, 2.0 * np.pi)
    rotate = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    stretch = np.diag([rng.uniform(0.87, 1.0), 1.0])
    shear = np.array([[1.0, rng.uniform(-0.12, 0.12)], [0.0, 1.0]])
    return np.asarray(rotate @ shear @ stretch)
