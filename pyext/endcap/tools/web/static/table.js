// The table of detections: one row each, best first; a row pointed at or focused is highlighted.

import { className, colorOf } from "./draw.js";

export class Table {
  #frame;
  #body;
  #onPoint;
  #rows = new Map(); // detection -> row

  // onPoint: called with the detection whose row is pointed at or focused, or null.
  constructor(frame, body, onPoint) {
    this.#frame = frame;
    this.#body = body;
    this.#onPoint = onPoint;
    body.addEventListener("keydown", (event) => this.#move(event));
  }

  // tracked: whether there is a column of tracks.
  show(detections, colors, tracked) {
    this.#frame.toggleAttribute("data-tracked", tracked);
    this.#rows = new Map(detections.map((each) => [each, this.#row(each, colors, tracked)]));
    this.#body.replaceChildren(...this.#rows.values());
    this.#frame.hidden = detections.length === 0;
    const first = this.#body.firstElementChild;
    if (first) first.tabIndex = 0; // one stop for the Tab key; arrows move between the rows
  }

  highlight(detection) {
    for (const [each, row] of this.#rows) row.classList.toggle("marked", each === detection);
  }

  #row(detection, colors, tracked) {
    const row = document.createElement("tr");
    row.tabIndex = -1;
    const swatch = document.createElement("span");
    swatch.className = "swatch";
    swatch.style.backgroundColor = colorOf(detection, colors);
    row.append(
      cell(swatch, className(detection)),
      ...(tracked ? [cell(detection.track_id ?? "")] : []),
      cell(detection.score.toFixed(3)),
      cell(detection.box.map((side) => Math.round(side)).join(", ")),
    );
    for (const event of ["pointerenter", "focus"]) {
      row.addEventListener(event, () => this.#onPoint(detection));
    }
    for (const event of ["pointerleave", "blur"]) {
      row.addEventListener(event, () => this.#onPoint(null));
    }
    return row;
  }

  #move(event) {
    const row = event.target.closest("tr");
    const next = {
      ArrowDown: row?.nextElementSibling,
      ArrowUp: row?.previousElementSibling,
      Home: this.#body.firstElementChild,
      End: this.#body.lastElementChild,
    }[event.key];
    if (!next) return;
    event.preventDefault();
    row.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  }
}

function cell(...content) {
  const element = document.createElement("td");
  element.append(...content);
  return element;
}
