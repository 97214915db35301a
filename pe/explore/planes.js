// The two small planes of the generator figure: eigenvalues, and trace and determinant.

import { dot, scale, text } from "./axes.js";

export const TRACES = 4;   // the plane of trace and determinant shows [-4, 4] x [-4, 4]

// Layers of the small planes: regions with their names, and the marks.
export function framePlane(svg) {
  const frame = scale(svg, 2.5), { at, grid, size } = frame, [o] = at([0, 0]), step = at([1, 0])[0] - o;
  const small = size < 150;   // there the four units would touch each other: two will do
  svg.children[0].innerHTML = `<rect class="bad" x="${o}" width="${o}" height="${size}"/>` + grid
    + text(o + step, o + 13, "1", "middle", "bare") + text(o - 14, o - step, "i", "end")
    + (small ? "" : text(o - step, o + 13, "\u22121") + text(o - 14, o + step, "\u2212i", "end"))
    + text(8, 13, "fades", "start") + text(size - (small ? 4 : 8), 13, "explodes", "end", "bare");
  return frame;
}

export function drawPlane(svg, { at, size }, s) {
  const hold = (v) => Math.max(-2.3, Math.min(2.3, v)), twice = !s.im && s.re[0] === s.re[1];
  const [p, q] = s.re.map((re, i) => at([hold(re), hold(i ? -s.im : s.im)]));
  svg.children[1].innerHTML = dot(...q, 6, "ring") + dot(...p, twice ? 4 : 6, twice ? "dot" : "mark")
    + (twice ? text(p[0] + (p[0] > size - 34 ? -20 : 20), p[1] - 13, "×2") : "");
}

export function frameTrace(svg) {
  const frame = scale(svg, TRACES), { at, path, grid, size } = frame, [o] = at([0, 0]);
  const spiral = size < 150 ? ["turn", "+ fade"] : ["turn + fade"];
  const parabola = Array.from({ length: 65 }, (_, i) => [i / 8 - 4, (i / 8 - 4) ** 2 / 4]);
  svg.children[0].innerHTML = `<path class="bad" d="M0 ${o}H${o}V0H${size}V${size}H0Z"/>` + grid
    + `<path class="none zero" d="${path(parabola)}"/>`
    + spiral.map((words, i) => text(o - 6, 13 + 15 * i, words, "end")).join("")
    + text(6, at([0, 0.6])[1], "fade", "start") + text(size - 8, 13, "explodes", "end", "bare")
    + text(6, size - 13, "saddles", "start", "bare");
  return frame;
}

export function drawTrace(svg, { at }, s) {
  const hold = (v) => Math.max(-3.7, Math.min(3.7, v));
  svg.children[1].innerHTML = dot(...at([hold(s.trace), hold(s.determinant)]), 6, "mark");
}
