"""The pipeline of `preprocess_dali` for NVIDIA's DALI backend, which serialises it at each load.

The server itself loads endcap's operators, by --backend-config=dali,plugin_libs=FILE.
"""

from nvidia.dali import fn, pipeline_def, types
from nvidia.dali.plugin.triton import autoserialize

from endcap.cuda import cuda_state
from endcap.dali import load

load()
# Of the machine: dali.py is not told the instance's kind. For KIND_CPU beside a GPU set False here.
ON_GPU = cuda_state().available


# The backend brings its own batch size, number of threads and device.
@autoserialize
@pipeline_def(batch_size=16, num_threads=4, device_id=0 if ON_GPU else None)
def preprocess():
    """Return images [3, 640, 640], geometry [8] and status [1] of an encoded image [L].

    A bad image is zeros and its status: an error would fail all requests of its batch.
    """
    encoded = fn.external_source(name="encoded", dtype=types.UINT8, ndim=1)
    images, geometry, status = fn.endcap.preprocess(
        encoded,
        device="mixed" if ON_GPU else "cpu",
        preset="ultralytics",
    )
    return images, geometry, status
