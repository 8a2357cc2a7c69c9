"""gpu.json: the results of one run or several, and the archive of their logs."""

from __future__ import annotations

import json
import tarfile
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from gpu_check.processes import PASSED
from gpu_check.records import write_json, write_text
from gpu_check.targets import judge, summary

FORMAT = 2
LEFT_OUT = "left out"
_FILE, _SUMMARY, _LOGS = "gpu.json", "summary.txt", "logs.tar.gz"


class ResultsError(ValueError):
    """Results that cannot be merged; the message says why."""


class Results:
    """Parts by name, each with its state, rows, kernel times and checks, and the runs they are of.

    ``content`` is what gpu.json has:

    - ``format``, ``emulated``, ``machine``: GPU, driver, clocks, commit, versions.
    - ``runs``: date, limit and seconds of each run, and the parts that were chosen.
    - ``parts``: by name ``state`` (passed, failed, crashed, timed out, left out), ``reason``,
      ``required``, ``seconds``, ``run`` (index), ``end_of_log``, ``repeats``; of tests ``tests``;
      and what the part recorded: ``rows``, ``kernels``, ``checks``, ``left_out``, ``failed``.
    - ``targets``: each target with its figure, worst first.
    - ``failed``, ``left_out``: in words.
    - ``complete``: whether the last run has ended by itself.
    """

    def __init__(self, machine: dict[str, Any], emulated: bool) -> None:
        self.content: dict[str, Any] = {
            "format": FORMAT,
            "emulated": emulated,
            "complete": False,
            "machine": machine,
            "runs": [],
            "parts": {},
        }

    @classmethod
    def read(cls, path: Path) -> Results:
        """Read a gpu.json.

        Raises:
            ResultsError: it is none, or of another format.
        """
        try:
            content = json.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise ResultsError(f"{path} cannot be read: {error}") from error
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise ResultsError(f"{path} is no result of format {FORMAT}")
        results = cls(content["machine"], content["emulated"])
        results.content.update(content)
        return results

    @property
    def parts(self) -> dict[str, dict[str, Any]]:
        """The parts by name."""
        parts: dict[str, dict[str, Any]] = self.content["parts"]
        return parts

    def why_not_with(self, other: Results) -> str:
        """Return why results of `other` cannot stand beside these, or ""."""
        if self.content["emulated"] != other.content["emulated"]:
            return "one is of an emulated GPU and no measurement"
        for field in ("commit", "gpus"):
            ours, theirs = (each.content["machine"].get(field) for each in (self, other))
            if ours != theirs:
                return f"{field}: {ours} and {theirs}"
        return ""

    def merge(self, later: Results) -> None:
        """Add the runs and parts of later results; a repeated part replaces its earlier results.

        A part that was left out later keeps its earlier results.

        Raises:
            ResultsError: they are of another commit or another GPU, or one is emulated.
        """
        if reason := self.why_not_with(later):
            raise ResultsError(f"these results do not belong together: {reason}")
        first_run = len(self.content["runs"])
        self.content["runs"] += later.content["runs"]
        for name, part in later.parts.items():
            self.set_part(name, {**part, "run": first_run + part.get("run", 0)})
        self.content["machine"] = later.content["machine"]
        self.content["complete"] = later.content["complete"]

    def begin_run(self, chosen: list[str], limit_s: float) -> None:
        """Begin a run; set_part then belongs to it."""
        date = datetime.now(timezone.utc).isoformat(timespec="seconds")
        self.content["complete"] = False
        self.content["runs"].append(
            {"date": date, "limit_s": limit_s, "parts": chosen, "seconds": 0.0}
        )

    @property
    def run(self) -> int:
        """Index of the run that has begun last."""
        return len(self.content["runs"]) - 1

    def set_part(self, name: str, part: dict[str, Any]) -> None:
        """Replace a part's results, but not by the note that it was left out."""
        earlier = self.parts.get(name)
        if earlier is not None and part["state"] == LEFT_OUT and earlier["state"] != LEFT_OUT:
            return
        self.parts[name] = part

    def failures(self) -> list[str]:
        """Return what failed, in words."""
        lines = []
        for name, part in self.parts.items():
            if part["state"] in (PASSED, LEFT_OUT):
                continue
            lines.append(f"{name}: {part['state']} ({part['reason']})")
            lines += [f"{name}: {error}" for error in part.get("failed", [])]
            lines += [f"{name}: {test}" for test in part.get("tests", {}).get("failed", [])]
            for repeat in part.get("repeats", []):
                lines.append(f"{name}, repeated {repeat['how']}: {repeat['state']}")
        return lines

    def omissions(self, required_only: bool = False) -> list[str]:
        """Return what was left out with its reason; ``required_only``: what should have run."""
        parts_of: dict[str, list[str]] = {}
        lines = []
        for name, part in self.parts.items():
            if part["state"] == LEFT_OUT:
                if part["required"] or not required_only:
                    parts_of.setdefault(part["reason"], []).append(name)
            elif not required_only:
                lines += [f"{name}: {reason}" for reason in part.get("left_out", [])]
                skipped = part.get("tests", {}).get("skipped", {}).values()
                for reason in dict.fromkeys(skipped):
                    count = sum(each == reason for each in skipped)
                    lines.append(f"{name}: skipped {count} of its tests: {reason}")
        return [f"{', '.join(names)}: {reason}" for reason, names in parts_of.items()] + lines

    def exit_status(self) -> int:
        """Return 0 where every part passed or may be left out, else 1; targets do not count."""
        bad = any(part["state"] not in (PASSED, LEFT_OUT) for part in self.parts.values())
        return int(bad or bool(self.omissions(required_only=True)))

    def summary(self) -> str:
        """Return the text that a run ends with: the targets ranked, failures, omissions."""
        return summary(self.content, judge(self.content), self.failures(), self.omissions())

    def write(self, out: Path, logs: Path | None) -> None:
        """Write gpu.json, summary.txt and logs.tar.gz into `out`, each atomically."""
        self.content["targets"] = judge(self.content)
        self.content["failed"] = self.failures()
        self.content["left_out"] = self.omissions()
        write_json(out / _FILE, self.content)
        write_text(out / _SUMMARY, self.summary() + "\n")
        if logs is not None:
            temporary = out / f".{_LOGS}"
            with tarfile.open(temporary, "w:gz", compresslevel=4) as archive:
                for path in sorted(logs.rglob("*")):
                    if path.is_file():
                        archive.add(path, f"logs/{path.relative_to(logs)}")
            temporary.replace(out / _LOGS)


def continued(out: Path, fresh: Results, logs: Path) -> Results:
    """Return results in `out` to which a run adds, or `fresh` where it holds none that fit.

    Results of another commit or GPU, and emulated ones beside measured ones, are kept under another
    name. The logs of results that fit are unpacked into `logs`.
    """
    path = out / _FILE
    if not path.is_file():
        return fresh
    try:
        earlier = Results.read(path)
        reason = earlier.why_not_with(fresh)
    except ResultsError as error:
        reason = str(error)
    if reason:
        number = next(n for n in range(1, 1000) if not (out / f"gpu-{n}.json").exists())
        path.rename(out / f"gpu-{number}.json")
        print(f"earlier results are now {out}/gpu-{number}.json: {reason}")
        return fresh
    earlier.content["machine"] = fresh.content["machine"]
    if (out / _LOGS).is_file():
        with tarfile.open(out / _LOGS) as archive:
            archive.extraction_filter = getattr(tarfile, "data_filter", None)
            for member in archive.getmembers():
                member.name = member.name.removeprefix("logs/")
                archive.extract(member, logs)
    return earlier


def merge_files(inputs: list[Path], out: Path) -> Results:
    """Merge several gpu.json, in the order of their runs, into the folder `out`.

    Raises:
        ResultsError: they cannot be read, or do not belong together.
    """
    merged = Results.read(inputs[0])
    for path in inputs[1:]:
        merged.merge(Results.read(path))
    out.mkdir(parents=True, exist_ok=True)
    merged.write(out, None)
    return merged
