// Frames of a camera or a video file, one after the other: the next is taken when the last one has
// its result, and those that come in between are dropped.

import { toJpeg } from "./jpeg.js";

const FRAME_QUALITY = 0.85;
const RATE_OVER_FRAMES = 12;

export class Player {
  #session = null; // {source}, null while nothing plays
  #onFrame;
  #onEnd;

  // onFrame: async, gets {image, width, height, jpeg, framesPerSecond, dropped}; image is a canvas,
  // dropped the number of frames so far, null where the browser does not tell.
  // onEnd: called once when the source has ended, with the error that ended it, or null.
  constructor(onFrame, onEnd) {
    this.#onFrame = onFrame;
    this.#onEnd = onEnd;
    window.addEventListener("pagehide", () => this.stop());
  }

  get running() {
    return this.#session !== null;
  }

  // source: {open(video, onGone), close(video)}; `open` gives the element what it plays, or throws,
  // and onGone is called with an error where that goes away. Returns when the source has ended; what
  // went wrong is told to onEnd.
  async run(source) {
    this.stop();
    const video = Object.assign(document.createElement("video"), { muted: true, playsInline: true });
    const session = { close: () => source.close(video) };
    this.#session = session;
    try {
      await source.open(video, (error) => this.#end(session, error));
      if (this.#session !== session) return; // stopped while the browser asked for permission
      await this.#loop(session, video);
      this.#end(session, null);
    } catch (error) {
      this.#end(session, error);
    } finally {
      session.close();
    }
  }

  stop() {
    this.#end(this.#session, null);
  }

  #end(session, error) {
    if (session === null || session !== this.#session) return;
    this.#session = null;
    session.close();
    this.#onEnd(error);
  }

  async #loop(session, video) {
    // Two canvases in turn: one is shown while the other takes the next frame.
    const canvases = [new OffscreenCanvas(1, 1), new OffscreenCanvas(1, 1)];
    const times = [];
    const first = nextFrame(video); // before it plays, or the first one would be missed
    await video.play();
    for (let count = 0; ; count += 1) {
      const presented = await (count === 0 ? first : nextFrame(video));
      if (this.#session !== session || presented === null) return;
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
      const dropped = presented === undefined ? null : Math.max(0, presented - count - 1);
      await this.#onFrame({ image: canvas, width, height, jpeg, framesPerSecond, dropped });
      if (this.#session !== session) return;
    }
  }
}

// Resolves with the number of frames that were presented so far, undefined where the browser does
// not tell, and null at the end of the video.
function nextFrame(video) {
  return new Promise((resolve) => {
    const end = () => resolve(null);
    if (video.ended) return end();
    video.addEventListener("ended", end, { once: true });
    const take = (presented) => {
      video.removeEventListener("ended", end);
      resolve(presented);
    };
    if ("requestVideoFrameCallback" in video) {
      video.requestVideoFrameCallback((_, { presentedFrames }) => take(presentedFrames));
    } else {
      requestAnimationFrame(() => take(undefined));
    }
  });
}
