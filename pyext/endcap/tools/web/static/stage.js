// The canvas with the picture and its boxes, fitted into its frame at the display's resolution.

import { drawDetections, drawTrails } from "./draw.js";

const LARGEST_ENLARGEMENT = 3;

export class Stage {
  #frame;
  #canvas;
  #shown = null; // {image, width, height}
  #detections = [];
  #trails = [];
  #colors = { classes: {}, tracks: {} };
  #highlighted = null;

  // onPoint: called with the detection under the pointer, or null.
  constructor(frame, canvas, onPoint) {
    this.#frame = frame;
    this.#canvas = canvas;
    new ResizeObserver(() => this.#draw()).observe(frame);
    window.addEventListener("resize", () => this.#draw()); // the page's zoom changes the pixels
    canvas.addEventListener("pointermove", (event) => onPoint(this.#at(event)));
    canvas.addEventListener("pointerleave", () => onPoint(null));
  }

  // "empty", "picture" or "problem"
  set state(state) {
    this.#frame.dataset.state = state;
  }

  set busy(busy) {
    this.#frame.toggleAttribute("data-busy", busy);
  }

  // image: anything that a canvas draws, or null for no picture.
  showPicture({ image, width, height }) {
    this.#shown = image ? { image, width, height } : null;
    this.#detections = [];
    this.#trails = [];
    this.#highlighted = null;
    this.state = image ? "picture" : "empty";
    if (image) this.#frame.style.setProperty("--ratio", width / height);
    this.#draw();
  }

  // trails: lines of Trails.
  showDetections(detections, trails, colors, description) {
    this.#detections = detections;
    this.#trails = trails;
    this.#colors = colors;
    if (!detections.includes(this.#highlighted)) this.#highlighted = null;
    this.#canvas.setAttribute("aria-label", description);
    this.#draw();
  }

  highlight(detection) {
    if (detection === this.#highlighted) return;
    this.#highlighted = detection;
    this.#draw();
  }

  // A canvas of the picture's own size with the same boxes; lines and letters grow with it.
  inFullSize() {
    const { image, width, height } = this.#shown;
    const canvas = new OffscreenCanvas(width, height);
    const context = canvas.getContext("2d");
    context.drawImage(image, 0, 0, width, height);
    const unit = Math.max(0.8, Math.min(width, height) / 480);
    this.#drawResult(context, 1, unit, null);
    return canvas;
  }

  #draw() {
    const { clientWidth, clientHeight } = this.#frame;
    if (!this.#shown || !clientWidth || !clientHeight) return;
    const { image, width, height } = this.#shown;
    const pixelRatio = window.devicePixelRatio || 1;
    const fitting = Math.min(clientWidth / width, clientHeight / height, LARGEST_ENLARGEMENT);
    const canvas = this.#canvas;
    canvas.width = Math.max(1, Math.floor(width * fitting * pixelRatio));
    canvas.height = Math.max(1, Math.floor(height * fitting * pixelRatio));
    canvas.style.width = `${canvas.width / pixelRatio}px`;
    canvas.style.height = `${canvas.height / pixelRatio}px`;
    const context = canvas.getContext("2d");
    context.imageSmoothingQuality = "high";
    context.drawImage(image, 0, 0, canvas.width, canvas.height);
    this.#drawResult(context, canvas.width / width, pixelRatio, this.#highlighted);
  }

  #drawResult(context, scale, unit, highlighted) {
    const colors = this.#colors;
    drawTrails(context, this.#trails, { scale, unit, colors: colors.tracks });
    drawDetections(context, this.#detections, { scale, unit, colors, highlighted });
  }

  // The smallest box under the pointer: a larger one around it can be reached beside it.
  #at(event) {
    if (!this.#shown) return null;
    const x = (event.offsetX / this.#canvas.clientWidth) * this.#shown.width;
    const y = (event.offsetY / this.#canvas.clientHeight) * this.#shown.height;
    const area = ({ box: [x1, y1, x2, y2] }) => (x2 - x1) * (y2 - y1);
    const under = this.#detections.filter(
      ({ box: [x1, y1, x2, y2] }) => x1 <= x && x <= x2 && y1 <= y && y <= y2,
    );
    return under.sort((a, b) => area(a) - area(b))[0] ?? null;
  }
}
