// The camera, as a source of frames; see player.js.

import { Problem } from "./problem.js";

const WANTED = { width: { ideal: 1280 }, height: { ideal: 720 }, facingMode: "environment" };

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
  #stream = null;
  #isClosed = false;

  async open(video, onGone) {
    this.#stream = await openStream();
    if (this.#isClosed) return this.close(video); // while the browser asked for permission
    for (const track of this.#stream.getTracks()) {
      track.addEventListener("ended", () =>
        onGone(new Problem("The camera has gone", "Connect it, then open it again.")),
      );
    }
    video.srcObject = this.#stream;
  }

  close(video) {
    this.#isClosed = true;
    for (const track of this.#stream?.getTracks() ?? []) track.stop();
    video.srcObject = null;
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
