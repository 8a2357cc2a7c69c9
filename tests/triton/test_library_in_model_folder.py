"""The backends' libraries, copied with their neighbours into a model's own folder."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as grpc_client

import endcap
from endcap.triton.installation import find_our_backends
from tests.support import jpegs
from tests.triton.calls import infer, strings
from tests.triton.model_folders import write_postprocess, write_preprocess
from tests.triton.running_server import run_server
from tests.triton.served_models import (
    ANCHORS,
    NUM_CLASSES,
    POSTPROCESS,
    PREPROCESS,
    PREPROCESS_TEXT,
)

FILE = jpegs.photo_jpeg(120, 90)


@pytest.mark.parametrize("place", [".", "1"], ids=["model_folder", "version_folder"])
def test_a_copied_library_serves(tmp_path: Path, place: str):
    repository, no_backends = tmp_path / "repository", tmp_path / "backends"
    no_backends.mkdir()
    write_preprocess(repository, "pre", parameters=PREPROCESS_TEXT)
    write_postprocess(repository, "post", parameters=POSTPROCESS)
    for model, backend in (("pre", "endcap_preprocess"), ("post", "endcap_postprocess")):
        for library in find_our_backends()[backend].iterdir():
            shutil.copy(library, repository / model / place)

    with (
        run_server(repository, f"--backend-directory={no_backends}") as server,
        grpc_client.InferenceServerClient(server.grpc) as client,
    ):
        images = infer(client, "pre", {"encoded": strings([FILE], batched=False)})["images"]
        head = np.zeros((4 + NUM_CLASSES, ANCHORS), np.float32)
        response = infer(client, "post", {"head": head})
        mapped = Path(f"/proc/{server.pid}/maps").read_text()
    np.testing.assert_array_equal(images, endcap.preprocess(FILE, **PREPROCESS).images[0])
    assert response["num_detections"].tolist() == [0]
    for name in ("libtriton_endcap_preprocess", "libtriton_endcap_postprocess", "libendcap_jpeg"):
        loaded = {Path(line.split()[-1]) for line in mapped.splitlines() if name in line}
        assert loaded
        assert all(path.is_relative_to(repository) for path in loaded), loaded
