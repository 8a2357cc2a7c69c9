"""endcap tune: the configuration of a repository that serves most within a latency limit."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Annotated

import typer

from endcap._system.locked_file import lock_folder
from endcap._system.written_file import whole_text_file
from endcap.cli.files import make_folder, refuse_foreign
from endcap.cli.images import image_inputs
from endcap.cli.load import read_contents
from endcap.cli.options import SERVER_PANEL, Model, Timeout, Verbose
from endcap.client import ClientArguments
from endcap.errors import EndcapError, InvalidArgumentError
from endcap.server.locate import locate_or_install_server
from endcap.terminal.console import PlainConsole, count
from endcap.terminal.failure import (
    INTERRUPTED,
    SOME_IMAGE_FAILED,
    StopRequested,
    report_errors,
    say,
    stopped_by_signals,
)
from endcap.terminal.progress import budget_bar, installing
from endcap.tools.config_changes import diff, write
from endcap.tools.tune.measurement import Bench, Traffic
from endcap.tools.tune.outcome import Goal, Outcome, Trial
from endcap.tools.tune.page import as_page
from endcap.tools.tune.perf_analyzer import cross_check
from endcap.tools.tune.report import as_group, failure, trial_line
from endcap.tools.tune.search import Search
from endcap.tools.tune.settings import (
    Pipeline,
    client_options,
    cpu_count,
    find_knobs,
    read_pipeline,
)
from endcap.tools.tune.state import State, identify

EXAMPLES = """
**Examples**

- `endcap tune models photos/ --p99-ms 50`

- `endcap tune models photos/ --p99-ms 50 --budget-minutes 30 --write`

- `endcap tune models photos/ --p99-ms 30 --rate 40`

- `endcap tune models photos/ --model classify --p99-ms 20 -o tuned`

**Exit code**: 0 when a configuration is recommended, be it the repository's own, 1 when none meets
the limit, 2 when nothing could be measured, 130 when interrupted: the same command goes on from
there.
"""

STATE_NAME, PAGE_NAME = "tune.json", "tune.html"
_CLIENT = ClientArguments()
_TRAFFIC = "Traffic"


def tune(
    repository: Annotated[
        Path, typer.Argument(help="The model repository on this machine.", metavar="REPOSITORY")
    ],
    images: Annotated[
        list[str],
        typer.Argument(
            help="Images as your users send them: files, folders, glob patterns, and http:// or "
            "https:// addresses.",
        ),
    ],
    p99_ms: Annotated[
        float,
        typer.Option(
            "--p99-ms",
            min=0.1,
            max=60_000,
            help="The latency within which 99 of 100 requests have to end, in milliseconds.",
            rich_help_panel=_TRAFFIC,
        ),
    ] = 50.0,
    rate: Annotated[
        float | None,
        typer.Option(
            min=0.1,
            max=100_000,
            help="Images per second that you expect. Default: as many as the limit allows.",
            show_default=False,
            rich_help_panel=_TRAFFIC,
        ),
    ] = None,
    batch: Annotated[
        int,
        typer.Option(
            min=1,
            help="Images in each request; no max_batch_size is made smaller.",
            rich_help_panel=_TRAFFIC,
        ),
    ] = 1,
    seed: Annotated[
        int,
        typer.Option(min=0, help="Of the arrivals and of the images.", rich_help_panel=_TRAFFIC),
    ] = 0,
    model: Model = _CLIENT.model,
    budget_minutes: Annotated[
        float,
        typer.Option(min=0.2, max=1440, help="Time for everything, about.", metavar="MINUTES"),
    ] = 10.0,
    wait_minutes: Annotated[
        float,
        typer.Option(
            min=0,
            max=1440,
            help="Time to wait, beside it, while other programs use the CPUs.",
            metavar="MINUTES",
        ),
    ] = 5.0,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            help=f"Folder for {PAGE_NAME}, and for the measurements, {STATE_NAME}.",
        ),
    ] = Path("tune-output"),
    write_configs: Annotated[
        bool,
        typer.Option(
            "--write", help="Write the recommended values into the repository's config.pbtxt files."
        ),
    ] = False,
    restart: Annotated[
        bool, typer.Option("--restart", help="Measure everything anew, also what was measured.")
    ] = False,
    shared_memory: Annotated[
        bool,
        typer.Option(
            "--shm/--no-shm",
            help="Whether to try shared memory, for clients on the server's machine.",
            rich_help_panel=_TRAFFIC,
        ),
    ] = True,
    tritonserver: Annotated[
        Path | None,
        typer.Option(
            help="Server to run, as for `endcap serve`.",
            show_default=False,
            rich_help_panel=SERVER_PANEL,
        ),
    ] = None,
    timeout: Timeout = _CLIENT.timeout_s,
    verbose: Verbose = False,
) -> None:
    """Find the settings of a repository that serve most images within a latency limit.

    Servers are started on a copy of the repository, on free ports of this machine, and get requests
    at random times (a Poisson process, in an open loop), with your images drawn at random. Tried
    are, one after the other, threads of ONNX Runtime and of endcap's models, instances, batching,
    max_batch_size, queue delays, and shared memory of clients. What is best is compared with the
    repository as it is, in turns, and recommended only where the difference is no noise.

    The server has this machine's CPUs together with the clients of this command: end other
    programs meanwhile. What they disturb is measured again, for --wait-minutes in all.

    The repository is changed with --write only, after the diff is printed: the values in its
    config.pbtxt files, all files or none; comments and all other text stay. After Ctrl-C or a
    crash the same command goes on where it was. Measurements of another machine, repository, set of
    images or options are not used.

    NVIDIA's perf_analyzer measures the recommended point, too, where it is on $PATH.
    """
    with (
        report_errors(verbose=verbose),
        stopped_by_signals(exit_code=INTERRUPTED),
        contextlib.ExitStack() as until_end,
    ):
        pipeline = read_pipeline(repository, model)
        targets = _targets(repository, output)
        if not until_end.enter_context(lock_folder(output)):
            raise InvalidArgumentError(
                f"--output {output} is in use by another `endcap tune`, which would disturb this "
                "one; wait for its end"
            )
        with image_inputs(images) as inputs:
            inputs.download(timeout_s=timeout)
            contents = read_contents(inputs)
        goal = Goal(p99_ms, rate, 60 * budget_minutes, seed)
        outcome, bench = _search(
            pipeline,
            Traffic(contents, inputs.names, batch, timeout),
            goal,
            output=targets[0],
            tritonserver=tritonserver,
            wait_s=60 * wait_minutes,
            restart=restart,
            shared_memory=shared_memory,
        )
        heading = (
            f"{model} of {repository}, p99 within {p99_ms:g} ms, Poisson arrivals, "
            f"{count(len(contents), 'image')}, seed {seed}"
        )
        changes = diff(pipeline.changes(outcome.chosen.configuration))
        with whole_text_file(targets[1], follow_links=False) as stream:
            stream.write(as_page(outcome, goal, heading, changes))
        console = PlainConsole(highlight=False)
        console.print(as_group(outcome, goal, heading, console.width))
        typer.echo(f"page: {targets[1]}")
        _apply(pipeline, outcome, goal, changes, wanted=write_configs)
        typer.echo(_cross_check(bench, outcome, seed))
        message = failure(outcome, goal)
        if message is not None:
            say(f"endcap: {message}")
            raise typer.Exit(SOME_IMAGE_FAILED)


def _targets(repository: Path, output: Path) -> tuple[Path, Path]:
    """Return the files of state and page, in a folder that is made."""
    if output.resolve().is_relative_to(repository.resolve()):
        raise InvalidArgumentError(
            f"--output {output} is in the repository, where Triton takes folders for models; give "
            "another folder"
        )
    make_folder(output)
    state, page = output / STATE_NAME, output / PAGE_NAME
    refuse_foreign([state, page], advice="give another --output")
    return state, page


def _search(
    pipeline: Pipeline,
    traffic: Traffic,
    goal: Goal,
    *,
    output: Path,
    tritonserver: Path | None,
    wait_s: float,
    restart: bool,
    shared_memory: bool,
) -> tuple[Outcome, Bench]:
    installation = locate_or_install_server(tritonserver, installing)
    knobs = find_knobs(pipeline, cpus=cpu_count(), batch=traffic.batch, shared_memory=shared_memory)
    options = {
        "model": pipeline.model,
        "p99_ms": goal.limit_ms,
        "rate": goal.rate,
        "batch": traffic.batch,
        "seed": goal.seed,
        "budget_s": goal.budget_s,
        "shared_memory": shared_memory,
        "timeout_s": traffic.timeout_s,
    }
    identity = identify(pipeline.folders, traffic.images, installation.executable, options)
    state = State(output, identity, restart=restart)
    if state.differs:
        say(
            f"endcap: the measurements of {output} are not used, and replaced: {state.differs} "
            "changed; another --output keeps them"
        )
    elif state.reused:
        say(f"endcap: {count(state.reused, 'measurement')} of {output} are used; see --restart")
    if pipeline.calling:
        say(
            f"endcap: {', '.join(pipeline.calling)} may call other models, which are served as "
            f"they are; tuned are {', '.join(each.name for each in pipeline.models)}"
        )
    with budget_bar(goal.budget_s) as show:
        bench = Bench(
            pipeline,
            traffic,
            goal.limit_ms,
            max_wait_s=wait_s,
            images_are_checked=state.reused > 0,
            tritonserver=tritonserver,
            on_tick=lambda text: show(text, state.now_s),
            progress=installing,
        )

        def report(trial: Trial) -> None:
            if not show.is_shown:
                left = max(0.0, goal.budget_s - state.spent_s)
                say(f"endcap: {trial_line(trial)}; at most {left / 60:.1f} minutes left")

        try:
            outcome = Search(bench, state, knobs, goal, report).run()
        except StopRequested:
            say(f"endcap: interrupted; the same command goes on from {output}")
            raise
    return outcome, bench


def _cross_check(bench: Bench, outcome: Outcome, seed: int) -> str:
    try:
        return cross_check(bench, outcome.chosen, seed).describe(outcome.chosen)
    except EndcapError as error:  # all else is done, and does not depend on it
        return f"Not cross-checked: {error}."


def _apply(pipeline: Pipeline, outcome: Outcome, goal: Goal, changes: str, *, wanted: bool) -> None:
    """Print the diff and what clients have to be told, and write the files where that is wanted."""
    configuration = outcome.chosen.configuration
    if changes:
        typer.echo(f"\n{changes}\n")
    for option in client_options(configuration):
        typer.echo(f"For clients on the server's machine: {option}")
    if not changes:
        return
    if not wanted:
        typer.echo("Nothing was written; --write writes these values.")
    elif not outcome.chosen.meets(goal.limit_ms):
        typer.echo("Nothing was written: the limit is not met.")
    else:
        files = write(pipeline.changes(configuration))
        typer.echo(f"Written: {', '.join(files)}")
