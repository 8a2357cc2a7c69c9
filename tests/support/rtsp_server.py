"""RTSP server of the tests, GStreamer's, in a process of the system's Python.

`serving()` starts it; this file run by the system's Python is the server. /h264 and /jpeg are test
pictures at 30 frames a second; /file is an MP4 file, once.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

SYSTEM_PYTHON = "/usr/bin/python3"
RATE = 30
SIZE = (320, 240)
_PICTURES = f"videotestsrc is-live=true ! video/x-raw,format=I420,width={SIZE[0]},height={SIZE[1]}"
_LAUNCH = {
    "/h264": f"{_PICTURES},framerate={RATE}/1 ! x264enc tune=zerolatency speed-preset=ultrafast "
    "key-int-max=10 ! rtph264pay name=pay0 pt=96 config-interval=1",
    "/jpeg": f"{_PICTURES},framerate={RATE}/1 ! jpegenc ! rtpjpegpay name=pay0 pt=26",
}


@contextlib.contextmanager
def serving(file: Path | None = None) -> Iterator[str]:
    """Yields the address of a server on loopback, host:port."""
    command = [SYSTEM_PYTHON, __file__, *([] if file is None else [str(file)])]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        port = process.stdout.readline().strip()
        assert port, "the RTSP server did not start; scripts/system_packages.sh test installs it"
        yield f"127.0.0.1:{port}"
    finally:
        process.kill()
        process.communicate()


def main() -> None:
    import gi

    gi.require_version("Gst", "1.0")
    gi.require_version("GstRtspServer", "1.0")
    from gi.repository import GLib, Gst, GstRtspServer

    Gst.init(None)
    server = GstRtspServer.RTSPServer()
    server.set_address("127.0.0.1")
    server.set_service("0")  # a free port
    launch = dict(_LAUNCH)
    if len(sys.argv) > 1:
        launch["/file"] = f'filesrc location="{sys.argv[1]}" ! qtdemux ! rtph264pay name=pay0 pt=96'
    for path, pipeline in launch.items():
        factory = GstRtspServer.RTSPMediaFactory()
        factory.set_launch(f"( {pipeline} )")
        factory.set_shared(path != "/file")
        server.get_mount_points().add_factory(path, factory)
    server.attach(None)
    print(server.get_bound_port(), flush=True)
    GLib.MainLoop().run()


if __name__ == "__main__":
    main()
