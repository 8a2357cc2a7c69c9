"""Building blocks for models of Triton's Python backend; model_repository/*/1/model.py use them.

A request to `preprocess_python` or `postprocess_python` (`stage_model`), after `endcap.triton` has
read the model's parameters (`stage_settings`) and completed its tensors (`tensor_completion`):

    requests -> preprocess_stage, postprocess_stage: one call of the core for all -> responses

A request to `cascade_bls`, which calls other models (`model_calls`, `bls`), with the routes of
`endcap.triton.cascade_settings`:

    cascade: detect -> crops (which rows, in batches) -> classify

`Cascade` takes these steps for several requests at once, `CascadeStream` for one detection after
another, and `detect_steps` has those of `detect_bls`.

`failures` has the text and the code of an error; `responses` brings it to the client and to the
server's log. `responses`, `bls` and `stage_model` import `triton_python_backend_utils` and so can
be imported by the server's stub only, the others anywhere.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from types import ModuleType

# Modules of earlier versions, for model.py files that were copied then, and where they are now.
_MOVED = {
    "answers": "endcap.python_backend.responses",
    "cascade_calls": "endcap.python_backend.cascade",
    "cascade_settings": "endcap.triton.cascade_settings",
    "cascade_stream": "endcap.python_backend.cascade",
    "declarations": "endcap.python_backend.detect_steps",
    "detection_rows": "endcap.python_backend.crops",
    "device": "endcap.python_backend.instance",
    "head_job": "endcap.python_backend.postprocess_stage",
    "input_tensors": "endcap.python_backend.requests",
    "log": "endcap.python_backend.responses",
    "outputs": "endcap.python_backend.responses",
    "request_ids": "endcap.python_backend.requests",
    "row_memory": "endcap.python_backend.instance",
    "settings": "endcap.triton.stage_settings",
    "tensor_settling": "endcap.triton.tensor_completion",
}
_RENAMED = {
    "Settings": "StageSettings",
    "answer_each": "respond_to_each",
    "settle": "complete_tensors",
}


class _MovedModules(MetaPathFinder, Loader):
    """Imports modules by their old names, with a DeprecationWarning."""

    def find_spec(
        self, fullname: str, path: object = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package, _, name = fullname.rpartition(".")
        return spec_from_loader(fullname, self) if package == __name__ and name in _MOVED else None

    def exec_module(self, module: ModuleType) -> None:
        new = importlib.import_module(_MOVED[module.__name__.rpartition(".")[2]])
        warnings.warn(
            f"{module.__name__} is now {new.__name__}: import it from there",
            DeprecationWarning,
            stacklevel=2,
        )
        names = {name: each for name, each in vars(new).items() if not name.startswith("__")}
        vars(module).update(names)
        vars(module).update({old: names[name] for old, name in _RENAMED.items() if name in names})


sys.meta_path.insert(0, _MovedModules())
