// What the page says in words and figures.

import { className } from "./draw.js";
import { Problem } from "./problem.js";

const FIGURES = ["triton-time", "request-time", "picture-size", "rate", "tracks", "dropped"];

const byId = (id) => document.getElementById(id);

// about: the result of /labels.
export function introduce({ model, server, labels }) {
  byId("server").textContent = `model ${model} at ${server}`;
  byId("classes").replaceChildren(
    ...labels.map(({ label, color }) => {
      const item = document.createElement("li");
      const swatch = Object.assign(document.createElement("span"), { className: "swatch" });
      swatch.style.backgroundColor = color;
      item.append(swatch, label);
      return item;
    }),
  );
}

export function showFigures({ width, height }, tritonMs, requestMs, [rateTitle, rate]) {
  byId("triton-time").textContent = `${tritonMs.toFixed(1)} ms`;
  byId("request-time").textContent = `${requestMs.toFixed(1)} ms`;
  byId("picture-size").textContent = `${width} × ${height}`;
  byId("rate-title").textContent = rateTitle;
  byId("rate").textContent = rate;
}

// tracks: how many there were so far. dropped: frames, null where that is not known.
export function showTracking(tracks, dropped) {
  byId("figures").toggleAttribute("data-tracked", true);
  byId("tracks").textContent = tracks;
  byId("dropped").textContent = dropped ?? "–";
}

export function clearReadout() {
  byId("figures").removeAttribute("data-tracked");
  for (const id of FIGURES) byId(id).textContent = "–";
  byId("problem").hidden = true;
  say("No picture yet");
  note("");
}

export function showProblem(error) {
  const known = error instanceof Problem;
  if (!known) console.error(error);
  const title = document.createElement("strong");
  title.textContent = known ? error.title : "Something in this page went wrong";
  byId("problem").replaceChildren(title, known ? error.message : String(error));
  byId("problem").hidden = false;
  say("No detections");
}

export function say(text) {
  byId("summary").textContent = text;
}

export function note(text) {
  byId("note").textContent = text;
  byId("note").hidden = !text;
}

// detections: those shown of `all`.
export function describe(detections, all) {
  if (all === 0) return "Nothing found";
  if (detections.length < all) return `${detections.length} of ${all} objects shown`;
  const counts = new Map();
  for (const each of detections) {
    counts.set(className(each), (counts.get(className(each)) ?? 0) + 1);
  }
  const parts = [...counts]
    .sort(([, a], [, b]) => b - a)
    .map(([name, count]) => `${count}\u00a0×\u00a0${name}`);
  return `${all === 1 ? "1 object" : `${all} objects`}: ${parts.join(", ")}`;
}
