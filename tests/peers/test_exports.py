"""docs/exports.md is true: each network is exported and given to `endcap init`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.peers.exported_networks import EXPORTS, RESULTS, Export, export_and_init
from tests.peers.exporting import SERVER_PYTHON, WITHOUT_SERVER

pytestmark = pytest.mark.skipif(SERVER_PYTHON is None, reason=WITHOUT_SERVER)


def test_the_results_are_of_these_networks() -> None:
    rows = json.loads(RESULTS.read_text())["exports"]
    listed = [(row["network"], row["exporter"], row["options"]) for row in rows]
    assert listed == [(each.network, each.exporter, " ".join(each.options)) for each in EXPORTS]


@pytest.mark.parametrize("each", EXPORTS, ids=lambda each: each.name)
def test_what_init_makes_of_an_export(each: Export, tmp_path: Path) -> None:
    rows = json.loads(RESULTS.read_text())["exports"]
    assert export_and_init(each, tmp_path) in rows
