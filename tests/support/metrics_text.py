"""Metrics as a Triton server gives them, of a network and of endcap's two stages."""

from __future__ import annotations

MODEL = 'model="{model}",version="1"'


def metrics(
    *,
    success: int = 0,
    failed: int = 0,
    images: int = 0,
    runs: int = 0,
    infer_us: int = 0,
    queue_us: int = 0,
    decode_s: float = 0.0,
    found: int = 0,
    corrupt: int = 0,
    more: str = "",
) -> str:
    """What a server with a network and endcap's two stages gives, counters as they are given."""
    own = MODEL.format(model="net")
    pre, post = (MODEL.format(model=name) for name in ("pre", "post"))
    return f"""\
# TYPE nv_inference_request_success counter
nv_inference_request_success{{{own}}} {success}
# TYPE nv_inference_request_failure counter
nv_inference_request_failure{{reason="BACKEND",{own}}} {failed}
nv_inference_request_failure{{reason="OTHER",{own}}} 0
# TYPE nv_inference_count counter
nv_inference_count{{{own}}} {images}
# TYPE nv_inference_exec_count counter
nv_inference_exec_count{{{own}}} {runs}
# TYPE nv_inference_compute_infer_duration_us counter
nv_inference_compute_infer_duration_us{{{own}}} {infer_us}
# TYPE nv_inference_queue_duration_us counter
nv_inference_queue_duration_us{{{own}}} {queue_us}
# TYPE nv_inference_pending_request_count gauge
nv_inference_pending_request_count{{{own}}} 7
# TYPE endcap_preprocess_images_total counter
endcap_preprocess_images_total{{{pre}}} {images}
# TYPE endcap_preprocess_decode_seconds_total counter
endcap_preprocess_decode_seconds_total{{{pre}}} {decode_s}
# TYPE endcap_preprocess_failed_total counter
endcap_preprocess_failed_total{{reason="corrupt_image",{pre}}} {corrupt}
endcap_preprocess_failed_total{{reason="cancelled",{pre}}} 0
# TYPE endcap_postprocess_images_total counter
endcap_postprocess_images_total{{{post}}} {images}
# TYPE endcap_postprocess_detections_total counter
endcap_postprocess_detections_total{{{post}}} {found}
{more}"""


MACHINE = """\
# TYPE nv_cpu_utilization gauge
nv_cpu_utilization 0.25
# TYPE nv_cpu_memory_total_bytes gauge
nv_cpu_memory_total_bytes 16e9
# TYPE nv_cpu_memory_used_bytes gauge
nv_cpu_memory_used_bytes 4e9
# TYPE nv_gpu_utilization gauge
nv_gpu_utilization{gpu_uuid="GPU-1"} 0.5
# TYPE nv_gpu_memory_total_bytes gauge
nv_gpu_memory_total_bytes{gpu_uuid="GPU-1"} 80e9
# TYPE nv_gpu_memory_used_bytes gauge
nv_gpu_memory_used_bytes{gpu_uuid="GPU-1"} 8e9
# TYPE nv_gpu_power_usage gauge
nv_gpu_power_usage{gpu_uuid="GPU-1"} 300
"""
EARLIER = metrics(success=100, images=400, runs=100, infer_us=1_000_000, decode_s=1.0, found=50)
LATER = metrics(
    success=120, failed=4, images=480, runs=110, infer_us=1_300_000, queue_us=40_000,
    decode_s=1.24, found=250, corrupt=2, more=MACHINE,
)  # fmt: skip
