// Frames of the camera, one after the other: the next is taken when the last one is answered.

import { toJpeg } from "./jpeg.js";
import { Problem } from "./problem.js";

const FRAME_QUALITY = 0.85;
const WANTED = { width: { ideal: 1280 }, height: { ideal: 720 }, facingMode: "environment" };
const RATE_OVER_FRAMES = 12;

const REASONS = {
  NotAllowedError: [
    "The camera is not allowed",
    "Allow it for this page in the browser's address bar or settings, then open it again.",
  ],
  NotFoundError: ["There is no camera", "Connect one, or choose a picture."],
  NotReadableError: [
    "The camera cannot be used",
    "Another program may hold it: close that one, then open the camera again.",
  ],
};

export class Camera {
  #session = null; // {stream}, null while the camera is off; the stream is null until it is open
  #onFrame;
  #onEnd;

  // onFrame: async, gets {image, width, height, jpeg, framesPerSecond}; image is a canvas.
  // onEnd: called once when the camera is closed, with the error that closed it, or null.
  constructor(onFrame, onEnd) {
    this.#onFrame = onFrame;
    this.#onEnd = onEnd;
    window.addEventListener("pagehide", () => this.stop());
  }

  get running() {
    return this.#session !== null;
  }

  // Returns when the camera is closed; what went wrong is told to onEnd.
  async run() {
    this.stop();
    const session = { stream: null };
    this.#session = session;
    const video = Object.assign(document.createElement("video"), { muted: true, playsInline: true });
    try {
      session.stream = await openStream();
      if (this.#session !== session) return; // stopped while the browser asked for permission
      this.#watch(session);
      video.srcObject = session.stream;
      await video.play();
      await this.#loop(session, video);
    } catch (error) {
      this.#end(session, error);
    } finally {
      stopTracks(session);
      video.srcObject = null;
    }
  }

  stop() {
    this.#end(this.#session, null);
  }

  #watch(session) {
    for (const track of session.stream.getTracks()) {
      track.addEventListener("ended", () =>
        this.#end(session, new Problem("The camera has gone", "Connect it, then open it again.")),
      );
    }
  }

  #end(session, error) {
    if (session === null || session !== this.#session) return;
    this.#session = null;
    stopTracks(session);
    this.#onEnd(error);
  }

  async #loop(session, video) {
    // Two canvases in turn: one is shown while the other takes the next frame.
    const canvases = [new OffscreenCanvas(1, 1), new OffscreenCanvas(1, 1)];
    const times = [];
    for (let count = 0; ; count += 1) {
      await nextFrame(video);
      if (this.#session !== session) return;
      const canvas = canvases[count % 2];
      const [width, height] = [video.videoWidth, video.videoHeight];
      if (canvas.width !== width || canvas.height !== height) {
        Object.assign(canvas, { width, height });
      }
      canvas.getContext("2d").drawImage(video, 0, 0);
      const jpeg = await toJpeg(canvas, FRAME_QUALITY);
      if (this.#session !== session) return;
      times.push(performance.now());
      if (times.length > RATE_OVER_FRAMES) times.shift();
      const framesPerSecond = (1000 * (times.length - 1)) / (times.at(-1) - times[0]);
      await this.#onFrame({ image: canvas, width, height, jpeg, framesPerSecond });
    }
  }
}

async function openStream() {
  if (!navigator.mediaDevices) {
    throw new Problem(
      "The browser gives no camera to this page",
      `It does so only at https:// and on this machine: open http://127.0.0.1:${location.port}/ there.`,
    );
  }
  try {
    return await navigator.mediaDevices.getUserMedia({ video: WANTED, audio: false });
  } catch (error) {
    throw new Problem(...(REASONS[error.name] ?? ["The camera cannot be used", error.message]));
  }
}

function stopTracks({ stream }) {
  for (const track of stream?.getTracks() ?? []) track.stop();
}

// A video that has ended has no next frame: its loop then waits here until it is collected.
function nextFrame(video) {
  return new Promise((resolve) => {
    if ("requestVideoFrameCallback" in video) video.requestVideoFrameCallback(resolve);
    else requestAnimationFrame(resolve);
  });
}
