// Where the objects of a sequence were in its last frames.

const FRAMES = 45; // a trail fades over so many

export class Trails {
  #points = new Map(); // track id -> [{frame, x, y}], oldest first
  #frame = 0;

  // detections: those of the next frame, with boxes in pixels of the picture.
  add(detections) {
    this.#frame += 1;
    for (const { track_id: id, box } of detections) {
      if (id === undefined) continue;
      if (!this.#points.has(id)) this.#points.set(id, []);
      const [x1, y1, x2, y2] = box;
      this.#points.get(id).push({ frame: this.#frame, x: (x1 + x2) / 2, y: (y1 + y2) / 2 });
    }
    for (const [id, points] of this.#points) {
      while (points.length > 0 && points[0].frame <= this.#frame - FRAMES) points.shift();
      if (points.length === 0) this.#points.delete(id);
    }
  }

  clear() {
    this.#points.clear();
  }

  // Returns the lines between centres of boxes: [{id, age, from: [x, y], to: [x, y]}], oldest first;
  // age grows from 0 to 1. hidden: ids to leave out.
  lines(hidden) {
    const lines = [];
    for (const [id, points] of this.#points) {
      if (hidden.has(id)) continue;
      for (let at = 1; at < points.length; at += 1) {
        const [{ x, y }, next] = [points[at - 1], points[at]];
        lines.push({ id, age: (this.#frame - next.frame) / FRAMES, from: [x, y], to: [next.x, next.y] });
      }
    }
    return lines.sort((a, b) => b.age - a.age);
  }
}
