"""Deployment files of a model repository: images, Kubernetes, KServe, Prometheus and Grafana.

`plan.make_plan` checks the options and reads what the repository needs, `rendering.render` makes
the texts by the templates, and `writing.write_bundle` writes them, all or none.
"""

from endcap.tools.bundle.options import BundleError, BundleOptions, ModelSource, SourceKind
from endcap.tools.bundle.plan import BundlePlan, make_plan
from endcap.tools.bundle.rendering import render
from endcap.tools.bundle.writing import check_output, write_bundle

__all__ = [
    "BundleError",
    "BundleOptions",
    "BundlePlan",
    "ModelSource",
    "SourceKind",
    "check_output",
    "make_plan",
    "render",
    "write_bundle",
]
