// A sequence of frames that the server tracks, one after the other, and what is known of its tracks.

import { detect, send } from "./detect.js";
import { Problem, asSentence } from "./problem.js";
import { Trails } from "./trails.js";

export class Tracking {
  #id = null; // null until the first frame
  #trails = new Trails();
  #colors = {};

  // track id -> "#rrggbb"
  get colors() {
    return this.#colors;
  }

  // How many tracks there were so far.
  get count() {
    return Object.keys(this.#colors).length;
  }

  // Lines to draw, see Trails.lines. hidden: detections whose tracks are left out.
  trails(hidden) {
    return this.#trails.lines(new Set(hidden.map(({ track_id: id }) => id)));
  }

  // Returns what `detect` does, with track_id in detections that have one.
  async track(jpeg, name, signal) {
    const response = await this.#send(jpeg, name, signal);
    const { detections, frame_index: index, track_colors: colors } = response.result;
    if (index === 0) this.#restart();
    Object.assign(this.#colors, colors);
    this.#trails.add(detections);
    return response;
  }

  end() {
    if (this.#id === null) return;
    const path = `sequences/${this.#id}`;
    this.#id = null;
    // The server drops one that it is not told of when it is idle.
    fetch(path, { method: "DELETE", keepalive: true }).catch(() => {});
  }

  // The ids of tracks begin anew.
  #restart() {
    this.#colors = {};
    this.#trails.clear();
  }

  async #send(jpeg, name, signal) {
    this.#id ??= await begin(signal);
    try {
      return await detect(jpeg, name, signal, `sequences/${this.#id}`);
    } catch (error) {
      if (error.status !== 404) throw error;
      this.#id = await begin(signal); // it was idle, as in a tab that was out of sight
      return await detect(jpeg, name, signal, `sequences/${this.#id}`);
    }
  }
}

// Returns the id of a new sequence.
async function begin(signal) {
  const response = await send("sequences", { method: "POST", signal });
  const content = await response.json().catch((error) => {
    if (signal.aborted) throw error;
    return {};
  });
  if (response.ok) return content.sequence;
  throw new Problem(
    "The server of this page takes no more videos",
    asSentence(content.error ?? `It responded with ${response.status} ${response.statusText}`),
    response.status,
  );
}
