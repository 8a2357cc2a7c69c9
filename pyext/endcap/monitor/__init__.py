"""What a running Triton server does, from the metrics that it gives in Prometheus' text format."""

from endcap.monitor.errors import MetricsError
from endcap.monitor.interval import Interval, compare, model_names
from endcap.monitor.machine import Gpu, Machine
from endcap.monitor.models import ModelRates
from endcap.monitor.scrape import Scrape, check_parser, parse_metrics, scrape
from endcap.monitor.stages import StageRates

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
