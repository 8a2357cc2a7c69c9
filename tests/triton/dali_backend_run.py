"""NVIDIA's DALI backend without a server: what it calls of DALI's C interface, in its order.

    python dali_backend_run.py PLUGIN SERIALIZED MAX_BATCH_SIZE OUTPUT.npz FILE...

reads a serialised pipeline, feeds the files as one batch of UINT8 samples to its only input, and
writes the outputs `0`, `1` and so on. It runs as a process of its own: no Python of DALI's is
imported, so that the operators are those of the plugin, as on a server.

The calls are those of dali_backend's src/dali_executor/dali_pipeline.{h,cc}; the functions and the
constants stand in dali/c_api.h.
"""

from __future__ import annotations

import ctypes
import importlib
import sys
from pathlib import Path

import numpy as np

CPU_ONLY_DEVICE = -99999
CPU = 0
UINT8 = 0
FORCE_NO_COPY = 1 << 4
TYPES = {0: np.uint8, 4: np.int8, 6: np.int32, 8: np.float16, 9: np.float32}


def main(plugin: str, serialized: str, max_batch_size: int, output: str, files: list[str]) -> None:
    dali, operators = load_dali()
    dali.daliInitialize()
    operators.daliInitOperators()
    dali.daliLoadLibrary(plugin.encode())
    pipeline = ctypes.c_void_p()
    text = Path(serialized).read_bytes()
    assert dali.daliIsDeserializable(text, len(text)) == 0
    # max_batch_size, num_threads, device; no separated execution, a queue of one.
    dali.daliCreatePipeline(
        ctypes.byref(pipeline), text, len(text), max_batch_size, 2, CPU_ONLY_DEVICE, 0, 1, 0, 0, 0
    )
    handle = ctypes.byref(pipeline)
    assert dali.daliGetNumExternalInput(handle) == 1
    name = dali.daliGetExternalInputName(handle, 0)
    assert dali.daliGetExternalInputType(handle, name) == UINT8
    assert dali.daliGetExternalInputNdim(handle, name) == 1
    contents = [Path(file).read_bytes() for file in files]
    shapes = (ctypes.c_int64 * len(contents))(*map(len, contents))
    # One piece of memory with all samples, as the backend gathers them.
    batch = ctypes.create_string_buffer(b"".join(contents))
    dali.daliSetExternalInputBatchSize(handle, name, len(contents))
    dali.daliSetExternalInput(handle, name, CPU, batch, UINT8, shapes, 1, None, FORCE_NO_COPY)
    dali.daliRun(handle)
    dali.daliOutput(handle)
    outputs = {
        str(i): copied(dali, handle, i, len(contents)) for i in range(dali.daliGetNumOutput(handle))
    }
    np.savez(output, name=name.decode(), **outputs)
    dali.daliDeletePipeline(handle)


def load_dali() -> tuple[ctypes.CDLL, ctypes.CDLL]:
    places = [Path(place) / "dali" for place in importlib.import_module("nvidia").__path__]
    folder = next(place for place in places if (place / "libdali.so").is_file())
    dali = ctypes.CDLL(str(folder / "libdali.so"), mode=ctypes.RTLD_GLOBAL)
    operators = ctypes.CDLL(str(folder / "libdali_operators.so"), mode=ctypes.RTLD_GLOBAL)
    dali.daliGetExternalInputName.restype = ctypes.c_char_p
    dali.daliShapeAtSample.restype = ctypes.POINTER(ctypes.c_int64)
    return dali, operators


def copied(dali: ctypes.CDLL, handle: object, index: int, count: int) -> np.ndarray:
    rank = dali.daliMaxDimTensors(handle, index)
    shapes = {
        tuple(dali.daliShapeAtSample(handle, index, sample)[:rank]) for sample in range(count)
    }
    assert dali.daliNumTensors(handle, index) == count
    (shape,) = shapes
    rows = np.empty((count, *shape), TYPES[dali.daliTypeAt(handle, index)])
    dali.daliOutputCopy(handle, ctypes.c_void_p(rows.ctypes.data), index, CPU, None, 0)
    return rows


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4], sys.argv[5:])
