"""endcap_postprocess with head: classification and a hierarchical file of labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as grpc_client
import tritonclient.http as http_client

from tests.triton.calls import infer
from tests.triton.class_models import LEAVES, TOP_K, TREE

pytestmark = pytest.mark.both_variants

LOGITS = np.array([[1, 5, 2, -3, 0], [4, 4, 9, 8, -1]], np.float32)
BEST = [[1, 2, 0], [2, 3, 0]]


def texts(names: list[str], ids: list[list[int]]) -> list[list[bytes]]:
    return [[names[i].encode() if i >= 0 else b"" for i in row] for row in ids]


def test_labels_are_last_parts_and_paths_whole_lines(client):
    response = infer(client, "classes_of_a_tree", {"logits": LOGITS})
    np.testing.assert_array_equal(response["class_ids"], BEST)
    assert response["class_labels"].tolist() == texts(LEAVES, BEST)
    assert response["class_paths"].tolist() == texts(TREE, BEST)


@pytest.mark.parametrize(
    ("output", "names"), [("class_labels", LEAVES), ("class_paths", TREE)], ids=["labels", "paths"]
)
def test_one_of_them_alone(client, output, names):
    response = infer(client, "classes_of_a_tree", {"logits": LOGITS}, outputs=[output])
    assert list(response) == [output]
    assert response[output].tolist() == texts(names, BEST)


def test_a_model_that_declares_paths_only(client):
    response = infer(client, "classes_as_paths_only", {"logits": LOGITS})
    assert list(response) == ["class_paths"]
    expected = [[path.replace(b"/", b"::") for path in row] for row in texts(TREE, BEST)]
    assert response["class_paths"].tolist() == expected


def test_without_a_separator_labels_are_whole_lines(client, server):
    response = infer(client, "classes_of_whole_lines", {"logits": LOGITS})
    assert response["class_labels"].tolist() == texts(TREE, BEST)
    assert "class_paths" not in response
    declared = [each["name"] for each in server.config("classes_of_whole_lines")["output"]]
    assert "class_labels" in declared
    assert "class_paths" not in declared


def test_the_server_completes_the_config(server):
    outputs = {each["name"]: each for each in server.config("classes_of_a_tree")["output"]}
    for name in ("class_labels", "class_paths"):
        assert outputs[name]["data_type"] == "TYPE_STRING"
        assert outputs[name]["dims"] == [TOP_K]
    (paths,) = server.config("classes_as_paths_only")["output"]
    assert paths["dims"] == [TOP_K]


@pytest.mark.parametrize("protocol", [grpc_client, http_client], ids=["grpc", "http"])
def test_the_servers_own_classification_through_an_ensemble(server, protocol: Any):
    logits = protocol.InferInput("logits", list(LOGITS.shape), "FP32")
    logits.set_data_from_numpy(LOGITS)
    wanted = [
        protocol.InferRequestedOutput("class_probabilities", class_count=2),
        protocol.InferRequestedOutput("class_labels"),
        protocol.InferRequestedOutput("class_paths"),
    ]
    url = {grpc_client: server.grpc, http_client: server.http}[protocol]
    with protocol.InferenceServerClient(url) as client:
        result = client.infer("classes_of_a_tree_ensemble", [logits], outputs=wanted)
    rows = [
        [text.decode().split(":", 2) for text in row]
        for row in result.as_numpy("class_probabilities")
    ]
    for image, best in enumerate(BEST):
        assert [(int(id_), label) for _, id_, label in rows[image]] == [
            (class_id, TREE[class_id]) for class_id in best[:2]
        ]
        powers = np.exp(LOGITS[image].astype(np.float64))
        expected = powers[best[:2]] / powers.sum()
        # The server writes six digits behind the point.
        assert [score for score, _, _ in rows[image]] == [f"{score:f}" for score in expected]
    assert result.as_numpy("class_labels").tolist() == texts(LEAVES, BEST)
    assert result.as_numpy("class_paths").tolist() == texts(TREE, BEST)
