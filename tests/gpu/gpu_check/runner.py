"""Runs the parts one after the other within a time limit, and repeats what failed."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu_check.ncu import read_ncu
from gpu_check.parts import SANITIZER, Part, Site
from gpu_check.processes import PASSED, Outcome, end_of, run_process
from gpu_check.pytest_record import read_record
from gpu_check.results import LEFT_OUT, Results

_LEAST_SECONDS = 8.0  # a part is not started with less
_AT_THE_END_SECONDS = 12.0  # to end a process, write the results and print the table
_MOST_REPEATED_TESTS = 8
_REPEAT_SECONDS = 60.0
_NO_TESTS_RAN = "exit status 5"  # of pytest
_RECORDED = ("rows", "kernels", "checks", "left_out", "failed", "clocks")
# Parts whose failures are not worth the time before the repeats of the others.
_AFTER_REPEATS = ("variants", "sanitizer", "profile")
# Groups whose output is shown where they passed.
_SHOWN = ("smoke", "benchmark", "variants")
NO_TIME = "no time was left"


@dataclass(frozen=True)
class _Repeat:
    """A way to repeat what failed."""

    how: str
    stem: str
    environment: tuple[tuple[str, str], ...] = ()
    tool: tuple[str, ...] = ()
    need: str = ""


_REPEATS = (
    _Repeat("with CUDA_LAUNCH_BLOCKING=1", "blocking", (("CUDA_LAUNCH_BLOCKING", "1"),)),
    _Repeat(
        "under memcheck",
        "memcheck",
        tool=(*SANITIZER, "memcheck"),
        need="compute-sanitizer",
    ),
)


class Runner:
    """One run.

    Args:
        site: where it takes place.
        results: what the run adds to.
        out: folder of the results, written after each part.
        started: seconds since the epoch when the run began.
        limit_s: seconds for all of it.
    """

    def __init__(
        self, site: Site, results: Results, out: Path, *, started: float, limit_s: float
    ) -> None:
        self._site = site
        self._results = results
        self._out = out
        # The wall clock may be set meanwhile.
        self._started = time.monotonic() - (time.time() - started)
        self._limit_s = limit_s

    def say(self, text: str) -> None:
        """Print a line with the seconds since the start."""
        print(f"[{time.monotonic() - self._started:.0f} s] {text}", flush=True)

    def left_s(self) -> float:
        """Return the seconds left for parts."""
        passed = time.monotonic() - self._started
        return self._limit_s - _AT_THE_END_SECONDS - passed

    def run(self, parts: Sequence[Part]) -> None:
        """Run parts in their order; what failed is repeated before the long parts at the end."""
        self._results.begin_run([part.name for part in parts], self._limit_s)
        early = [part for part in parts if part.group not in _AFTER_REPEATS]
        for part in early:
            self._run_part(part)
        for part in early:
            self._repeat(part)
        for part in parts:
            if part not in early:
                self._run_part(part)
        self._results.content["complete"] = True
        self.write()

    def write(self) -> None:
        """Write everything so far."""
        run = self._results.content["runs"][-1]
        run["seconds"] = round(time.monotonic() - self._started, 1)
        self._results.write(self._out, self._site.logs)

    def leave_out(self, part: Part, reason: str, required: bool) -> None:
        """Note that a part was not run."""
        self.say(f"{part.name}: left out: {reason}")
        self._results.set_part(
            part.name,
            {
                "state": LEFT_OUT,
                "reason": reason,
                "required": required,
                "run": self._results.run,
            },
        )
        self.write()

    def _run_part(self, part: Part) -> None:
        if self._site.dry_run and part.in_dry_run:
            self.leave_out(part, f"dry run: {part.in_dry_run}", required=False)
            return
        if self.left_s() < _LEAST_SECONDS:
            self.leave_out(part, NO_TIME, required=True)
            return
        for need in part.needs:
            if reason := self._site.missing(need):
                required = need in ("server", "tritonclient") and not self._site.dry_run
                self.leave_out(part, reason, required)
                return
        limit_s = min(part.limit_s, self.left_s())
        self.say(f"{part.name} ...")
        log = self._site.logs / f"{part.name}.log"
        outcome = self._process(part, part.name, log, limit_s)
        result = self._result_of(part, outcome, log)
        self._results.set_part(part.name, result)
        if part.group in _SHOWN:
            print(end_of(log, 200), flush=True)
        elif result["state"] not in (PASSED, LEFT_OUT):
            print(end_of(log), flush=True)
        reason = f" ({result['reason']})" if result["reason"] else ""
        self.say(f"{part.name}: {result['state']}{reason} in {outcome.seconds:.1f} s")
        self.write()

    def _process(
        self,
        part: Part,
        stem: str,
        log: Path,
        limit_s: float,
        tests: Sequence[str] = (),
        repeat: _Repeat | None = None,
    ) -> Outcome:
        self._site.output_of(stem).unlink(missing_ok=True)
        command = self._site.command_of(part, stem, tests)
        environment = self._site.environment_of(part)
        if repeat is not None:
            command = [*repeat.tool, *command]
            if part.module and "--tiny" not in command:
                command.append("--tiny")
            environment |= dict(repeat.environment)
        return run_process(
            command, log=log, limit_s=limit_s, environment=environment, folder=self._site.work
        )

    def _result_of(self, part: Part, outcome: Outcome, log: Path) -> dict[str, Any]:
        result: dict[str, Any] = {
            "state": outcome.state,
            "reason": outcome.detail,
            "required": True,
            "seconds": round(outcome.seconds, 2),
            "limit_s": part.limit_s,
            "run": self._results.run,
        }
        result |= self._recorded(part.name)
        if part.name == "ncu":
            result["rows"] = read_ncu(self._site.logs / f"{part.name}.csv")
        if part.test_file:
            record = read_record(self._site.record_of(part.name))
            result["tests"] = {
                "passed": record.passed,
                "failed": record.failed,
                "skipped": record.skipped,
            }
            only_skipped = record.skipped and not record.passed and not record.failed
            if only_skipped and (outcome.state == PASSED or outcome.detail == _NO_TESTS_RAN):
                reason = next(iter(record.skipped.values()))
                return result | {"state": LEFT_OUT, "reason": reason, "required": False}
        if result["state"] != PASSED:
            result["end_of_log"] = end_of(log)
            if part.tool and _tool_unsuited(result["end_of_log"]):
                reason = f"{part.tool[0]} cannot work on this machine; its log says why"
                return result | {"state": LEFT_OUT, "reason": reason, "required": False}
        return result

    def _recorded(self, stem: str) -> dict[str, Any]:
        """Return what a process has recorded; after a crash that is what was complete before."""
        path = self._site.output_of(stem)
        if not path.is_file():
            return {}
        try:
            content = json.loads(path.read_text())
        except ValueError as error:
            return {"failed": [f"{path.name} is no JSON: {error}"]}
        if not isinstance(content, dict):
            return {"data": content}
        recorded = {name: content.pop(name) for name in _RECORDED if name in content}
        content.pop("emulated", None)
        return recorded | ({"data": content} if content else {})

    def _repeat(self, part: Part) -> None:
        result = self._results.parts.get(part.name)
        if result is None or result["run"] != self._results.run or not part.is_repeated:
            return
        if result["state"] in (PASSED, LEFT_OUT):
            return
        repeats: list[dict[str, Any]] = []
        for repeat in _REPEATS:
            repeats.append(self._repeat_once(part, repeat, result))
            self._results.set_part(part.name, result | {"repeats": repeats})
            self.write()

    def _repeat_once(self, part: Part, repeat: _Repeat, result: dict[str, Any]) -> dict[str, Any]:
        def not_done(reason: str) -> dict[str, Any]:
            self.say(f"{part.name}: not repeated {repeat.how}: {reason}")
            return {"how": repeat.how, "state": LEFT_OUT, "reason": reason}

        if repeat.need and (reason := self._site.missing(repeat.need)):
            return not_done(reason)
        if self.left_s() < _LEAST_SECONDS:
            return not_done(NO_TIME)
        tests = [test for test in result.get("tests", {}).get("failed", []) if "::" in test]
        self.say(f"{part.name}, repeated {repeat.how} ...")
        stem = f"{part.name}-{repeat.stem}"
        log = self._site.logs / f"{stem}.log"
        limit_s = min(_REPEAT_SECONDS, part.limit_s, self.left_s())
        outcome = self._process(part, stem, log, limit_s, tests[:_MOST_REPEATED_TESTS], repeat)
        end = end_of(log)
        print(end, flush=True)
        self.say(f"{part.name}, repeated {repeat.how}: {outcome.state} {outcome.detail}")
        return {
            "how": repeat.how,
            "state": outcome.state,
            "reason": outcome.detail,
            "seconds": round(outcome.seconds, 2),
            "tests": tests[:_MOST_REPEATED_TESTS],
            "end_of_log": end,
        }


def _tool_unsuited(log: str) -> bool:
    """Return whether a tool of NVIDIA's refused the device or lacks the permission to use it."""
    return "Device not supported" in log or "ERR_NVGPUCTRPERM" in log
