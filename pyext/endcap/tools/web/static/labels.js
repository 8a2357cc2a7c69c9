// Where a label goes: beside its box, inside the picture, and where possible on no other label.

// box: [left, top, right, bottom]; size and bounds: {width, height}; taken: rectangles placed
// before. All in pixels of the canvas. Returns {x, y, width, height}.
export function placeLabel(box, size, bounds, taken) {
  const [left, top, right, bottom] = box;
  const candidates = [
    [left, top - size.height],
    [right - size.width, top - size.height],
    [left, bottom],
    [right - size.width, bottom],
    [left, top],
    [right - size.width, bottom - size.height],
  ].map(([x, y]) => ({ x, y, ...size }));
  const inside = candidates.filter((label) => contains(bounds, label));
  const free = inside.find((label) => !taken.some((other) => overlaps(label, other)));
  return free ?? inside[0] ?? pushInside(candidates[0], bounds);
}

function contains(bounds, { x, y, width, height }) {
  return x >= 0 && y >= 0 && x + width <= bounds.width && y + height <= bounds.height;
}

function overlaps(a, b) {
  return (
    a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height
  );
}

function pushInside(label, bounds) {
  return {
    ...label,
    x: Math.max(0, Math.min(label.x, bounds.width - label.width)),
    y: Math.max(0, Math.min(label.y, bounds.height - label.height)),
  };
}
