"""Writing of deployment files, all or none."""

from __future__ import annotations

import shutil
from pathlib import Path

from endcap._system.written_folder import check_empty, whole_folder
from endcap.errors import InvalidArgumentError
from endcap.tools.bundle.options import BundleError
from endcap.tools.bundle.plan import BundlePlan, is_copied
from endcap.tools.bundle.rendering import render

_PURPOSE = "bundle"


def check_output(output: Path, repository: Path) -> None:
    """Raise InvalidArgumentError where the files cannot be made without losing something.

    The output folder must be missing or empty, and must not lie in the repository: Triton takes
    every folder there for a model.
    """
    check_empty(
        output, _PURPOSE, advice="give --output another folder, and move over what you want of it"
    )
    if output.resolve().is_relative_to(repository.resolve()):
        raise InvalidArgumentError(
            f"folder {output} lies in the model repository, where Triton takes it for a model; "
            "give --output a folder elsewhere"
        )


def write_bundle(plan: BundlePlan, output: Path) -> list[str]:
    """Write all files to `output`, which is empty or not there; return their paths in it.

    Raises:
        InvalidArgumentError: As `check_output`, or another process has written there.
        BundleError: Jinja2 is missing, or the models cannot be copied.
        OSError: A file cannot be read or written. In all cases nothing is left behind.
    """
    check_output(output, plan.repository)
    texts = render(plan)
    with whole_folder(output, _PURPOSE) as folder:
        for path, text in texts.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        if plan.options.wheel is not None:
            shutil.copyfile(plan.options.wheel, folder / "wheels" / plan.options.wheel.name)
        if is_copied(plan):
            _copy_models(plan, folder / "models")
    return sorted(texts)


def _copy_models(plan: BundlePlan, target: Path) -> None:
    """Copy the served models, what links lead to in place of the links."""
    target.mkdir()
    for name in plan.needs.models:
        try:
            shutil.copytree(
                plan.repository / name,
                target / name,
                copy_function=shutil.copyfile,
                ignore=shutil.ignore_patterns("__pycache__"),
            )
        except shutil.Error as error:
            source, _, reason = error.args[0][0]
            raise BundleError(f"{source} cannot be copied: {reason}") from error
