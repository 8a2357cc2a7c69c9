// Draws detections onto a canvas whose picture is already there.

import { placeLabel } from "./labels.js";

const FONT = "system-ui, sans-serif";
const LETTERS_PX = 13;
const LINE_PX = 2;
const TRAIL_PX = 3;
const PADDING_PX = 4;
const FADED = 0.3;

export function caption(detection) {
  const track = detection.track_id === undefined ? "" : `#${detection.track_id} `;
  return `${track}${className(detection)} ${detection.score.toFixed(2)}`;
}

// colors: {classes, tracks}, each id -> "#rrggbb".
export function colorOf({ class_id, track_id }, { classes, tracks = {} }) {
  return tracks[track_id] ?? classes[class_id];
}

export function className(detection) {
  return detection.label ?? `class ${detection.class_id}`;
}

// detections: best first. scale: canvas pixels per pixel of the picture. unit: canvas pixels per
// unit of line width and letters. colors: as for colorOf. highlighted: a detection or null.
export function drawDetections(context, detections, { scale, unit, colors, highlighted = null }) {
  const { width, height } = context.canvas;
  const line = Math.max(1, Math.round(LINE_PX * unit));
  const boxes = detections.map((each) => onCanvas(boxOfLabel(each), scale, width, height));
  const faded = (detection) => highlighted !== null && detection !== highlighted;

  for (const [index, detection] of [...detections.entries()].reverse()) {
    context.globalAlpha = faded(detection) ? FADED : 1;
    const [color, filled] = [colorOf(detection, colors), detection === highlighted];
    if (detection.angle === undefined) outline(context, boxes[index], line, color, filled);
    else outlineRotated(context, detection, scale, line, color, filled);
  }

  const order = [...detections.keys()]; // the best have the first choice of a place
  if (highlighted !== null) order.sort((a, b) => faded(detections[a]) - faded(detections[b]));
  const taken = [];
  for (const index of order) {
    const detection = detections[index];
    context.globalAlpha = faded(detection) ? FADED : 1;
    const text = caption(detection);
    const size = setFont(context, text, unit, width);
    const place = placeLabel(boxes[index], size, { width, height }, taken);
    taken.push(place);
    write(context, text, place, colorOf(detection, colors));
  }
  context.globalAlpha = 1;
}

// lines: see Trails.lines. scale and unit: as for drawDetections. colors: track id -> "#rrggbb".
export function drawTrails(context, lines, { scale, unit, colors }) {
  context.save();
  context.lineCap = "round";
  context.lineWidth = Math.max(1, TRAIL_PX * unit);
  for (const { id, age, from, to } of lines) {
    context.globalAlpha = 1 - age;
    context.strokeStyle = colors[id];
    context.beginPath();
    context.moveTo(from[0] * scale, from[1] * scale);
    context.lineTo(to[0] * scale, to[1] * scale);
    context.stroke();
  }
  context.restore();
}

// What the label stands beside: the box, or the topmost corner of a rotated one.
function boxOfLabel({ box: [x1, y1, x2, y2], angle }) {
  if (angle === undefined) return [x1, y1, x2, y2];
  const [cosine, sine] = [Math.cos(angle), Math.sin(angle)];
  const corners = [[x1, y1], [x2, y1], [x2, y2], [x1, y2]].map(([x, y]) => {
    const [across, down] = [x - (x1 + x2) / 2, y - (y1 + y2) / 2];
    return [across * cosine - down * sine, across * sine + down * cosine];
  });
  const [across, down] = corners.reduce((best, corner) => (corner[1] < best[1] ? corner : best));
  const [x, y] = [(x1 + x2) / 2 + across, (y1 + y2) / 2 + down];
  return [x, y, x, y];
}

// The box is given as before it is rotated around its centre, clockwise.
function outlineRotated(context, { box, angle }, scale, line, color, filled) {
  const [x1, y1, x2, y2] = box.map((side) => side * scale);
  const [across, down] = [(x2 - x1) / 2, (y2 - y1) / 2];
  context.save();
  context.translate((x1 + x2) / 2, (y1 + y2) / 2);
  context.rotate(angle);
  outline(context, [-across, -down, across, down], line, color, filled);
  context.restore();
}

// Whole canvas pixels, inside the picture, at least one pixel large.
function onCanvas(box, scale, width, height) {
  const [x1, y1, x2, y2] = box.map((side) => Math.round(side * scale));
  const left = Math.max(0, Math.min(x1, width - 1));
  const top = Math.max(0, Math.min(y1, height - 1));
  return [left, top, Math.max(left + 1, Math.min(x2, width)), Math.max(top + 1, Math.min(y2, height))];
}

function outline(context, [left, top, right, bottom], line, color, filled) {
  if (filled) {
    context.save();
    context.globalAlpha = 0.2;
    context.fillStyle = color;
    context.fillRect(left, top, right - left, bottom - top);
    context.restore();
  }
  // A dark rim outside keeps the box visible on a ground of its own colour.
  for (const [style, thickness, outset] of [["#0009", line + 2, 1], [color, line, 0]]) {
    const inset = thickness / 2 - outset;
    context.strokeStyle = style;
    context.lineWidth = thickness;
    context.strokeRect(left + inset, top + inset, right - left - 2 * inset, bottom - top - 2 * inset);
  }
}

// Sets the font, smaller where the text would not fit the canvas; returns the label's size.
function setFont(context, text, unit, canvasWidth) {
  const padding = PADDING_PX * unit;
  let letters = LETTERS_PX * unit;
  context.font = `600 ${letters}px ${FONT}`;
  const room = canvasWidth - 2 * padding - 1;
  const wanted = context.measureText(text).width;
  if (wanted > room) {
    letters = Math.max(1, (letters * room) / wanted);
    context.font = `600 ${letters}px ${FONT}`;
  }
  return {
    width: Math.ceil(context.measureText(text).width + 2 * padding),
    height: Math.ceil(letters * 1.2 + padding),
  };
}

function write(context, text, { x, y, width, height }, color) {
  context.fillStyle = color;
  context.fillRect(x, y, width, height);
  context.fillStyle = ink(color);
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.fillText(text, x + width / 2, y + height / 2 + 0.5);
}

// Black or white, whichever reads better: contrast by WCAG 2.1, whose crossing point is 0.179.
function ink(color) {
  const [red, green, blue] = [1, 3, 5].map((at) => {
    const value = parseInt(color.slice(at, at + 2), 16) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179 ? "#000" : "#fff";
}
