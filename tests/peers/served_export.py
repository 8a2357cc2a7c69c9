"""Serves an ONNX file as `endcap init` wraps it, and keeps what each hop gave for one picture.

python tests/peers/served_export.py MODEL.onnx PICTURE.jpg RESULT.npz [OPTIONS OF INIT...]

It runs in the server's environment, the tests that call it in the peers': the two cannot share one.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import tritonclient.grpc as grpc_client

from endcap.server import ServerPorts, ServerSettings, TritonServer


def main(model: str, picture: str, result: str, *options: str) -> None:
    """Writes the outputs of `preprocess`, `detector` or `classifier`, and the ensemble."""
    with tempfile.TemporaryDirectory(prefix="endcap-") as scratch:
        repository = Path(scratch) / "models"
        command = [sys.executable, "-m", "endcap", "init", model, "-o", str(repository), *options]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        settings = ServerSettings(ports=ServerPorts(http=0, grpc=0, metrics=0))
        network = "detector" if (repository / "detector").is_dir() else "classifier"
        with TritonServer(repository, settings) as server:
            address = server.grpc_url.removeprefix("grpc://")
            with grpc_client.InferenceServerClient(address) as client:
                kept = _send_request(client, network, Path(picture).read_bytes())
    np.savez(result, **kept)


def _send_request(
    client: grpc_client.InferenceServerClient, network: str, encoded: bytes
) -> dict[str, Any]:
    file = grpc_client.InferInput("encoded", [1, 1], "BYTES")
    file.set_data_from_numpy(np.array([[encoded]], np.object_))
    made = _arrays(client.infer("preprocess", [file]))
    name = client.get_model_metadata(network).inputs[0].name
    images = grpc_client.InferInput(name, list(made["images"].shape), "FP32")
    images.set_data_from_numpy(made["images"])
    heads = _arrays(client.infer(network, [images]))
    ensemble = "detect" if network == "detector" else "classify"
    return {**made, **heads, **_arrays(client.infer(ensemble, [file]))}


def _arrays(response: Any) -> dict[str, Any]:
    """Texts as bytes of one length, as arrays are kept; names of classes are none of these."""
    kept = {}
    for each in response.get_response().outputs:
        array = response.as_numpy(each.name)
        if each.datatype != "BYTES":
            kept[each.name] = array
        elif each.name == "detection_rle":
            kept[each.name] = array.astype(np.bytes_)
    return kept


if __name__ == "__main__":
    main(*sys.argv[1:])
