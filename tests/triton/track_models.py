"""Models for tests of tracking: `detect_track`, and `track` with different settings."""

from __future__ import annotations

import shutil
from pathlib import Path

SHIPPED = Path(__file__).resolve().parents[2] / "model_repository"
STEPS = (
    "preprocess",
    "preprocess_frames",
    "detector",
    "postprocess",
    "detect",
    "detect_track",
    "track",
)
IDLE_S = 2
PRESETS = ("bytetrack_trackers", "ocsort")
MOST = 70  # sequences of track_few


def write_all(folder: Path) -> None:
    """Write the shipped models, and more of `track`."""
    for model in STEPS:
        shutil.copytree(SHIPPED / model, folder / model, ignore=shutil.ignore_patterns("samples"))
    config = (folder / "track" / "config.pbtxt").read_text()
    head, _, rest = config.partition("  oldest {")
    direct = head + "  direct { max_queue_delay_microseconds: 1 }\n" + rest.partition("  }\n")[2]
    _write(folder, "track_direct", direct.replace("count: 1", "count: 5"))
    soon = config.replace("idle_microseconds: 10000000", f"idle_microseconds: {IDLE_S}000000")
    assert soon != config
    _write(folder, "track_idle", soon)
    ensemble = (folder / "detect_track" / "config.pbtxt").read_text()
    idle = ensemble.replace('model_name: "track"', 'model_name: "track_idle"')
    _write(folder, "detect_track_idle", idle.replace('"detect_track"', '"detect_track_idle"'))
    few = config.replace('string_value: "1000"', f'string_value: "{MOST}"')
    assert few != config
    _write(folder, "track_few", few)
    for preset in PRESETS:
        parameter = f'parameters {{ key: "preset" value {{ string_value: "{preset}" }} }}\n'
        _write(folder, f"track_{preset}", config + parameter)


def _write(folder: Path, name: str, config: str) -> None:
    (folder / name / "1").mkdir(parents=True)
    (folder / name / "config.pbtxt").write_text(config.replace('name: "track"', f'name: "{name}"'))
