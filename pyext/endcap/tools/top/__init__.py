"""What a running Triton server does, from the metrics that it gives in Prometheus' text format."""

from endcap.tools.top.errors import MetricsError
from endcap.tools.top.interval import Interval, compare, model_names
from endcap.tools.top.machine import Gpu, Machine
from endcap.tools.top.models import ModelRates
from endcap.tools.top.scrape import Scrape, check_parser, parse_metrics, scrape
from endcap.tools.top.stages import StageRates

__all__ = [
    "Gpu",
    "Interval",
    "Machine",
    "MetricsError",
    "ModelRates",
    "Scrape",
    "StageRates",
    "check_parser",
    "compare",
    "model_names",
    "parse_metrics",
    "scrape",
]
