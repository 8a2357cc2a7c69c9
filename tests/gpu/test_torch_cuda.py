"""Tensors of torch go in and out without a copy, in the order of torch's streams."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import endcap
from tests.gpu.pictures import FILES, PIXELS
from tests.support.sample_heads import seg_outputs, yolov8_head

BUSY_CYCLES = 200_000_000  # of the GPU's clock: a tenth of a second


def test_results_are_taken_over(torch: Any) -> None:
    result = endcap.preprocess(list(FILES.values()), size=64, device="cuda")
    tensor = torch.from_dlpack(result.images)
    assert tensor.is_cuda
    assert tensor.data_ptr() == result.images.__cuda_array_interface__["data"][0]
    expected = endcap.preprocess(list(FILES.values()), size=64)
    np.testing.assert_array_equal(tensor.cpu().numpy(), expected.images)
    del result
    np.testing.assert_array_equal(tensor.cpu().numpy(), expected.images)  # it owns the memory


def test_writes_into_a_tensor_on_its_stream(torch: Any) -> None:
    stream = torch.cuda.Stream()
    out = torch.full((2, 3, 64, 64), -1.0, device="cuda")
    stream.wait_stream(torch.cuda.current_stream())
    files = [FILES["4:2:0"], FILES["gray"]]
    with torch.cuda.stream(stream):
        torch.cuda._sleep(BUSY_CYCLES)
        result = endcap.preprocess(files, size=64, device="cuda", out=out, stream=stream)
        doubled = out * 2
    assert result.images is out
    stream.synchronize()
    np.testing.assert_array_equal(
        doubled.cpu().numpy(), endcap.preprocess(files, size=64).images * np.float32(2)
    )


def test_reads_what_another_stream_is_about_to_write(torch: Any) -> None:
    source = torch.from_numpy(PIXELS[0])
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(BUSY_CYCLES)
        pixels = source.cuda(non_blocking=True)
        result = endcap.preprocess(pixels, size=64, device="cuda", stream=stream)
    np.testing.assert_array_equal(
        result.images.to_numpy(), endcap.preprocess(PIXELS[0], size=64).images
    )


def test_heads_of_torch(torch: Any) -> None:
    heads = np.stack([yolov8_head(seed, anchors=2100, num_classes=8) for seed in range(4)])
    stream = torch.cuda.Stream()
    for dtype in (torch.float32, torch.float16):
        tensor = torch.from_numpy(heads).to(dtype)
        expected = endcap.Postprocessor(num_classes=8)(tensor.numpy())
        postprocessor = endcap.Postprocessor(num_classes=8, device="cuda")
        with torch.cuda.stream(stream):
            torch.cuda._sleep(BUSY_CYCLES)
            result = postprocessor.enqueue(tensor.cuda(non_blocking=True), stream=stream)
        actual = result.to_numpy()
        np.testing.assert_array_equal(actual.num_detections, expected.num_detections)
        np.testing.assert_array_equal(actual.boxes, expected.boxes)
        np.testing.assert_array_equal(actual.indices, expected.indices)


def test_a_captured_call_reads_new_heads_at_each_replay(torch: Any) -> None:
    """Results are copied within the capture: their own memory is allocated and freed there."""
    batches = [
        np.stack([yolov8_head(seed + at, anchors=2100, num_classes=8) for at in range(2)])
        for seed in (0, 10, 20)
    ]
    head = torch.from_numpy(batches[0]).cuda()
    outputs = [
        torch.zeros(shape, dtype=dtype, device="cuda")
        for shape, dtype in (((2,), torch.int32), ((2, 300, 4), torch.float32))
    ]
    postprocessor = endcap.Postprocessor(num_classes=8, device="cuda")

    def enqueue() -> None:
        result = postprocessor.enqueue(head, stream=torch.cuda.current_stream())
        outputs[0].copy_(torch.from_dlpack(result.num_detections).reshape(2))
        outputs[1].copy_(torch.from_dlpack(result.boxes))

    enqueue()  # CUDA loads code at its first use, which a capture forbids
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        enqueue()
    for batch in batches[1:]:
        head.copy_(torch.from_numpy(batch))
        graph.replay()
        torch.cuda.synchronize()
        expected = endcap.Postprocessor(num_classes=8)(batch)
        np.testing.assert_array_equal(outputs[0].cpu().numpy(), expected.num_detections.ravel())
        np.testing.assert_array_equal(outputs[1].cpu().numpy(), expected.boxes)


def test_a_captured_call_makes_masks(torch: Any) -> None:
    fields: dict[str, Any] = {
        **{"head": "yolov8_seg", "num_classes": 3, "mask_coefficients": 8, "max_detections": 9},
        **{"prototype_size": "40,80", "input_size": "160,320", "mask_resolution": "input"},
    }
    batches = [seg_outputs(seed, anchors=70, num_classes=3, size=(40, 80)) for seed in (0, 1)]
    tensors = {name: torch.from_numpy(array[None]).cuda() for name, array in batches[0].items()}
    packed = torch.zeros((1, 9, 160, 40), dtype=torch.uint8, device="cuda")
    postprocessor = endcap.Postprocessor(**fields, packed_masks=True, device="cuda")

    def enqueue() -> None:
        result = postprocessor.enqueue(tensors, stream=torch.cuda.current_stream())
        packed.copy_(torch.from_dlpack(result.packed_masks))

    enqueue()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        enqueue()
    for batch in reversed(batches):
        for name, array in batch.items():
            tensors[name].copy_(torch.from_numpy(array[None]))
        graph.replay()
        torch.cuda.synchronize()
        expected = endcap.Postprocessor(**fields, packed_masks=True)(batch)
        np.testing.assert_array_equal(packed.cpu().numpy(), expected.packed_masks)
        assert expected.packed_masks.any()


def test_kept_indices_index_tensors(torch: Any) -> None:
    boxes = torch.tensor([[0, 0, 10, 10], [1, 1, 10, 10], [20, 20, 30, 30]], device="cuda").float()
    scores = torch.tensor([0.5, 0.9, 0.4], device="cuda")
    kept = torch.from_dlpack(endcap.nms(boxes, scores, 0.5))
    assert scores[kept].tolist() == pytest.approx([0.9, 0.4])
