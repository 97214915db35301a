// Names beside points of a square plot. Each goes to the side it asks for, or to the next one with room: inside
// the plot, clear of the names before it and of the boxes that are taken, and of `ticks` where that can be.

import { text } from "./axes.js";

const WIDE = 36, HIGH = 18;   // pixels of the longest name, in the widest font
const TURNS = [0, 1, -1, 2, -2, 3, -3, 4].map((n) => n * Math.PI / 4);

export const around = ([x, y], r) => [x - r, y - r, x + r, y + r];
const meet = (p, q) => p[0] < q[2] && q[0] < p[2] && p[1] < q[3] && q[1] < p[3];

// names: { at: [x, y], side: [dx, dy], gap, words }, in pixels, the most important first. What finds no room is
// left out. Returns SVG text for each.
export function place(names, size, taken, ticks) {
  const boxes = [...taken];
  return names.map(({ at: [px, py], side: [dx, dy], gap, words }) => {
    const spots = TURNS.map((turn) => {
      const angle = Math.atan2(dy, dx) + turn, c = Math.cos(angle), s = Math.sin(angle);
      const push = (v, half) => v * gap + Math.max(-1, Math.min(1, 1.42 * v)) * half;
      return [px + push(c, WIDE / 2), py + push(s, HIGH / 2)];
    });
    const box = ([x, y]) => [x - WIDE / 2, y - HIGH / 2, x + WIDE / 2, y + HIGH / 2];
    const free = (others) => spots.find((spot) => {
      const [left, top, right, bottom] = box(spot);
      return left >= 2 && top >= 2 && right <= size - 2 && bottom <= size - 2
        && !others.some((other) => meet(other, box(spot)));
    });
    const spot = free([...boxes, ...ticks]) || free(boxes);
    if (!spot) return "";
    boxes.push(box(spot));
    return text(...spot, words, "middle", "v");
  });
}
