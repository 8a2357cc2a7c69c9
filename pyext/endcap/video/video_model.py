"""Base class of the Python model `video`, which the server's stub imports."""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import triton_python_backend_utils as pb_utils

from endcap.errors import ImageLimitError, InvalidArgumentError
from endcap.python_backend.bls import MAX_CALLS, call_model
from endcap.python_backend.failures import RequestCancelledError, describe
from endcap.python_backend.requests import find_input, on_host
from endcap.python_backend.responses import ModelLog, respond_with_error, to_tensors
from endcap.video.served import VideoJob
from endcap.video.settings import read_video_options, read_video_settings
from endcap.video.source import import_av

_WATCH_S = 0.2  # how often requests are looked at that may have been cancelled


@dataclass
class _Running:
    """A request at work. lock: held while its sender is used for the last time."""

    job: VideoJob
    sender: Any
    deadline: float
    lock: threading.Lock
    is_over: bool = False


class VideoModel:
    """A `TritonPythonModel` that reads a video for each request, several side by side."""

    @classmethod
    def auto_complete_config(cls, config: Any) -> Any:
        """Read the parameters; there is nothing that config.pbtxt may leave out."""
        read_video_settings(config.as_dict())
        config.set_model_transaction_policy({"decoupled": True})
        return config

    def initialize(self, args: dict[str, str]) -> None:
        """Read the parameters; what cannot be carried out fails the load with a message."""
        self._settings = read_video_settings(json.loads(args["model_config"]))
        import_av()
        self._log = ModelLog(args)
        calls = min(MAX_CALLS, self._settings.max_videos * self._settings.frames_in_flight)
        self._calls = ThreadPoolExecutor(calls, thread_name_prefix="bls")
        self._running: list[_Running] = []
        self._lock = threading.Lock()
        self._is_ending = threading.Event()
        self._threads: list[threading.Thread] = []
        self._watcher = threading.Thread(target=self._watch, name="endcap video watch", daemon=True)
        self._watcher.start()

    def execute(self, requests: list[Any]) -> None:
        """Begin with each request; its responses are sent by a separate thread."""
        for request in requests:
            sender = request.get_response_sender()
            try:
                running = self._begin(request, sender)
            except Exception as error:
                _send_last(sender, respond_with_error(request, error, log=self._log))
                continue
            if running is None:
                text = (
                    f"unavailable: {self._settings.max_videos} videos are being read already, the "
                    "limit of the parameter max_videos; try again later"
                )
                self._log.write_failure(request, text)
                refusal = pb_utils.TritonError(text, pb_utils.TritonError.UNAVAILABLE)
                _send_last(sender, pb_utils.InferenceResponse([], refusal))
                continue
            wanted = frozenset(request.requested_output_names())
            thread = threading.Thread(
                target=self._run, args=(request, running, wanted), name="endcap video", daemon=True
            )
            self._threads = [each for each in self._threads if each.is_alive()] + [thread]
            thread.start()

    def finalize(self) -> None:
        """End all requests, and the threads."""
        self._is_ending.set()
        with self._lock:
            running = list(self._running)
        for each in running:
            each.job.stop()
        for thread in [*self._threads, self._watcher]:
            thread.join()
        self._calls.shutdown()

    def _begin(self, request: Any, sender: Any) -> _Running | None:
        """Return a request that is counted as running; None where there are too many."""
        encoded = _element(request, "encoded")
        if encoded is None:
            raise InvalidArgumentError("input 'encoded' has no bytes; give those of a video file")
        options = read_video_options(_element(request, "options"))
        job = VideoJob(encoded, self._settings, options, call=call_model, threads=self._calls)
        deadline = time.monotonic() + self._settings.max_seconds
        running = _Running(job, sender, deadline, threading.Lock())
        with self._lock:
            if len(self._running) >= self._settings.max_videos:
                return None
            self._running.append(running)
        return running

    def _run(self, request: Any, running: _Running, wanted: frozenset[str]) -> None:
        last = None
        try:
            for row in running.job.frames():
                tensors = to_tensors({name: row[name] for name in row if name in wanted})
                running.sender.send(pb_utils.InferenceResponse(tensors))
        except Exception as error:
            last = respond_with_error(request, error, log=self._log)
        if running.job.first_failure is not None:
            self._log.write_failure(
                request,
                f"{running.job.failed_frames} frames have failed, the first of them: "
                f"{describe(running.job.first_failure)}",
            )
        with self._lock:
            self._running.remove(running)
        with running.lock:
            running.is_over = True
            _send_last(running.sender, last)

    def _watch(self) -> None:
        """Stop requests whose client has gone, or that have taken too long."""
        while not self._is_ending.wait(_WATCH_S):
            with self._lock:
                running = list(self._running)
            for each in running:
                with each.lock:
                    is_cancelled = not each.is_over and each.sender.is_cancelled()
                if is_cancelled:
                    each.job.stop(RequestCancelledError())
                elif time.monotonic() > each.deadline:
                    each.job.stop(
                        ImageLimitError(
                            f"the video took more than {self._settings.max_seconds} seconds, the "
                            "limit of the parameter max_seconds"
                        )
                    )


def _send_last(sender: Any, response: Any) -> None:
    sender.send(response, flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)


def _element(request: Any, name: str) -> bytes | None:
    """Return the element of an input of BYTES, None where it is missing or empty."""
    tensor = find_input(request, name)
    if tensor is None:
        return None
    array = on_host(tensor)
    if array.size != 1:
        raise InvalidArgumentError(f"input '{name}' has {array.size} elements; give one")
    return bytes(array.reshape(-1)[0]) or None
