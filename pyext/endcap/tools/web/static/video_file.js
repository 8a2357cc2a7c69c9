// A video file, as a source of frames that are played at its own pace; see player.js.

import { Problem } from "./problem.js";

const NAMES = /\.(mp4|m4v|mov|webm|mkv|ogv|avi|mpe?g|ts)$/i; // where the browser knows no type

export function isVideo(file) {
  return file.type.startsWith("video/") || (file.type === "" && NAMES.test(file.name ?? ""));
}

export class VideoFile {
  #file;
  #url = null;

  constructor(file) {
    this.#file = file;
  }

  async open(video, onGone) {
    const problem = new Problem(
      "The browser cannot play this video",
      `${this.#file.name} is damaged, or of a format that it does not know; try WebM or MP4, or ` +
        "`endcap infer` in a terminal.",
    );
    this.#url = URL.createObjectURL(this.#file);
    video.preload = "auto";
    video.src = this.#url;
    await new Promise((resolve, reject) => {
      video.addEventListener("error", () => reject(problem), { once: true });
      video.addEventListener("loadeddata", resolve, { once: true });
    });
    if (!video.videoWidth) throw problem; // sound alone
    video.addEventListener("error", () => onGone(problem), { once: true });
  }

  close(video) {
    if (this.#url === null) return;
    video.pause();
    video.removeAttribute("src");
    URL.revokeObjectURL(this.#url);
    this.#url = null;
  }
}
