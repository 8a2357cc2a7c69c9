"""Writes Grafana's dashboard that `endcap bundle` gives, by grafana-foundation-sdk.

python scripts/grafana_dashboard.py > pyext/endcap/tools/bundle/templates/dashboard.json

A test compares. Most panels show what the rules of the same folder record.
"""

from __future__ import annotations

import itertools

from grafana_foundation_sdk.builders.common import VizLegendOptions, VizTooltipOptions
from grafana_foundation_sdk.builders.dashboard import (
    Dashboard,
    DatasourceVariable,
    QueryVariable,
    Row,
)
from grafana_foundation_sdk.builders.prometheus import Dataquery
from grafana_foundation_sdk.builders.stat import Panel as Stat
from grafana_foundation_sdk.builders.timeseries import Panel as TimeSeries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import (
    LegendDisplayMode,
    LegendPlacement,
    TooltipDisplayMode,
)
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DataSourceRef,
    VariableRefresh,
)

_DATASOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
_OF_SERVER = 'instance=~"$instance"'
_OF_MODEL = f'{_OF_SERVER},model=~"$model"'
_HEIGHT = 7

Query = tuple[str, str]  # expression and legend


def _queries(*queries: Query) -> list[Dataquery]:
    return [
        Dataquery().expr(expression).legend_format(legend).ref_id(chr(ord("A") + index))
        for index, (expression, legend) in enumerate(queries)
    ]


def _graph(title: str, unit: str, description: str, *queries: Query) -> TimeSeries:
    panel = (
        TimeSeries()
        .title(title)
        .description(description)
        .datasource(_DATASOURCE)
        .unit(unit)
        .min(0)
        .span(8)
        .height(_HEIGHT)
        .fill_opacity(8)
        .legend(
            VizLegendOptions()
            .display_mode(LegendDisplayMode.LIST)
            .placement(LegendPlacement.BOTTOM)
            .show_legend(True)
        )
        .tooltip(VizTooltipOptions().mode(TooltipDisplayMode.MULTI))
    )
    return panel.targets(_queries(*queries))


def _number(title: str, unit: str, description: str, expression: str) -> Stat:
    panel = Stat().title(title).description(description).datasource(_DATASOURCE).unit(unit)
    return panel.span(6).height(4).targets(_queries((expression, "")))


def _choice(name: str, label: str, metric: str) -> QueryVariable:
    return (
        QueryVariable(name)
        .label(label)
        .datasource(_DATASOURCE)
        .query(f"label_values({metric}, {name})")
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .multi(True)
        .include_all(True)
        .all_value(".*")
    )


def make_dashboard() -> Dashboard:
    """Return the dashboard."""
    board = (
        Dashboard("endcap on Triton")
        .uid("endcap")
        .description("Made by scripts/grafana_dashboard.py of endcap.")
        .tags(["endcap", "triton"])
        .timezone("browser")
        .readonly()
        .refresh("15s")
        .time("now-1h", "now")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .with_variable(DatasourceVariable("datasource").label("Data source").type("prometheus"))
        .with_variable(_choice("instance", "Server", "nv_inference_request_success"))
        .with_variable(_choice("model", "Model", "nv_inference_request_success"))
    )
    numbers = itertools.count(1)
    for title, panels in _rows().items():
        board = board.with_row(Row(title).id(next(numbers)))
        for panel in panels:
            board = board.with_panel(panel.id(next(numbers)))
    return board


def _rows() -> dict[str, list[TimeSeries | Stat]]:
    return {
        "Overview": _overview(),
        "Stages": _stages(),
        "Images": _images(),
        "Machine": _machine(),
        "GPU": _gpu(),
    }


def _overview() -> list[TimeSeries | Stat]:
    return [
        _number(
            "Servers",
            "none",
            "Servers that give metrics.",
            f'sum(up{{job="endcap",{_OF_SERVER}}})',
        ),
        _number(
            "Images",
            "ops",
            "Images preprocessed in a second.",
            f'sum(endcap:images:rate1m{{stage="preprocess",{_OF_SERVER}}})',
        ),
        _number(
            "Longest queue",
            "s",
            "Mean queue time of a request, for the stage where it is longest.",
            f"max(endcap_queue_seconds_per_request{{{_OF_SERVER}}})",
        ),
        _number(
            "Rejected images",
            "percentunit",
            "Images that cannot be read, of all images of the last five minutes.",
            f"sum(endcap:rejected_image_ratio:rate5m{{{_OF_SERVER}}})",
        ),
    ]


def _stages() -> list[TimeSeries | Stat]:
    return [
        _graph(
            "Requests",
            "reqps",
            "Successful requests of each model.",
            (f"sum by (model) (endcap:requests:rate1m{{{_OF_MODEL}}})", "{{model}}"),
        ),
        _graph(
            "Queue time per request",
            "s",
            "Mean time in the queue; the autoscaler looks at the longest.",
            (
                f"max by (model) (endcap:queue_seconds_per_request:rate1m{{{_OF_MODEL}}})",
                "{{model}}",
            ),
        ),
        _graph(
            "Compute time per request",
            "s",
            "Mean of a model's work on a request; of an ensemble, that of its steps.",
            (
                "sum by (model) (avg by (model, phase) "
                f"(endcap:compute_seconds_per_request:rate1m{{{_OF_MODEL}}}))",
                "{{model}}",
            ),
        ),
        _graph(
            "Batch size",
            "none",
            "Inferences in one execution. Preprocess on a CPU counts each request by itself.",
            (f"avg by (model) (endcap:batch_size:rate1m{{{_OF_MODEL}}})", "{{model}}"),
        ),
        _graph(
            "Requests in flight",
            "none",
            "Mean number of requests at work or in the queue.",
            (f"sum by (model) (endcap:requests_in_flight:rate1m{{{_OF_MODEL}}})", "{{model}}"),
        ),
        _graph(
            "Saturation",
            "percentunit",
            "Share of a request's time that it spends in the queue.",
            (f"max by (model) (endcap:queue_share:rate1m{{{_OF_MODEL}}})", "{{model}}"),
        ),
        _graph(
            "Pending requests",
            "none",
            "Requests in the queue at this moment.",
            (f"sum by (model) (nv_inference_pending_request_count{{{_OF_MODEL}}})", "{{model}}"),
        ),
        _graph(
            "Failed requests",
            "reqps",
            "By Triton's reason: REJECTED by a full queue, CANCELED, BACKEND, OTHER.",
            (
                f"sum by (model, reason) (endcap:request_failures:rate1m{{{_OF_MODEL}}})",
                "{{model}} {{reason}}",
            ),
        ),
        _graph(
            "Refused requests",
            "reqps",
            "REJECTED by Triton's full queue; by max_queue_cost: queue, deadline, expired, memory. "
            "They are failed requests, too.",
            (
                f"sum by (model, reason) (endcap:refused_requests:rate1m{{{_OF_MODEL}}})",
                "{{model}} {{reason}}",
            ),
        ),
    ]


def _images() -> list[TimeSeries | Stat]:
    return [
        _graph(
            "Images",
            "ops",
            "Images that a stage has processed without an error.",
            (f"sum by (stage) (endcap:images:rate1m{{{_OF_SERVER}}})", "{{stage}}"),
        ),
        _graph(
            "Failed images",
            "ops",
            "By the failure class of endcap.",
            (
                f"sum by (stage, reason) (endcap:failed_images:rate1m{{{_OF_SERVER}}}) > 0 "
                f"or sum by (stage) (endcap:failed_images:rate1m{{{_OF_SERVER}}})",
                "{{stage}} {{reason}}",
            ),
        ),
        _graph(
            "Decoding and detections",
            "none",
            "Milliseconds in the JPEG decoder, and detections, for an image.",
            (f"1000 * avg(endcap:decode_seconds_per_image:rate1m{{{_OF_SERVER}}})", "decoding, ms"),
            (f"avg(endcap:detections_per_image:rate1m{{{_OF_SERVER}}})", "detections"),
        ),
    ]


def _machine() -> list[TimeSeries | Stat]:
    return [
        _graph(
            "CPU",
            "percentunit",
            "Of the machine that the server runs on.",
            (f"nv_cpu_utilization{{{_OF_SERVER}}}", "{{instance}}"),
        ),
        _graph(
            "Memory",
            "bytes",
            "Of the machine that the server runs on.",
            (f"nv_cpu_memory_used_bytes{{{_OF_SERVER}}}", "{{instance}}"),
        ),
        _graph(
            "Pinned memory pool",
            "bytes",
            "Of Triton's pool for copies to and from GPUs.",
            (f"nv_pinned_memory_pool_used_bytes{{{_OF_SERVER}}}", "{{instance}}"),
        ),
    ]


def _gpu() -> list[TimeSeries | Stat]:
    return [
        _graph(
            "GPU",
            "percentunit",
            "Share of the time in which the GPU had work.",
            (f"nv_gpu_utilization{{{_OF_SERVER}}}", "{{instance}} {{gpu_uuid}}"),
        ),
        _graph(
            "GPU memory",
            "percentunit",
            "Memory in use, of all that the GPU has.",
            (
                f"nv_gpu_memory_used_bytes{{{_OF_SERVER}}} / "
                f"nv_gpu_memory_total_bytes{{{_OF_SERVER}}}",
                "{{instance}} {{gpu_uuid}}",
            ),
        ),
        _graph(
            "GPU power",
            "watt",
            "Power that the GPU takes.",
            (f"nv_gpu_power_usage{{{_OF_SERVER}}}", "{{instance}} {{gpu_uuid}}"),
        ),
    ]


def dashboard_json() -> str:
    """Return the text of the file."""
    return JSONEncoder(sort_keys=True, indent=1).encode(make_dashboard().build()) + "\n"


if __name__ == "__main__":
    print(dashboard_json(), end="")
