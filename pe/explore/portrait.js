// The phase portrait: the flow of x' = Xx, and the unit square and one solution riding it.

import { arrow, barbs, dot, line, round, scale, text } from "./axes.js";
import { around, place } from "./labels.js";
import { apply, transport } from "./matrix.js";
import { plain } from "./numbers.js";
import { FRAME, heads, still } from "./trajectories.js";

// The numbers along the left and the lower edge, each with its plate.
const ticks = (at, size) => [-2, -1, 1, 2].flatMap((i) =>
  [[at([i, 0])[0], size - 10, i], [11, at([0, i])[1], i]]).map(([x, y, i]) => ({
  box: [x - 11, y - 10, x + 11, y + 10],
  svg: `<rect class="plate" x="${round(x - 11)}" y="${round(y - 10)}"/>` + text(x, y, plain(i), "middle", "bare"),
}));

// Layers of the portrait: grid, flow, labels of the axes, and what rides the flow.
export function framePortrait(svg) {
  const frame = scale(svg, FRAME);
  svg.children[0].innerHTML = frame.grid;
  svg.children[2].innerHTML = ticks(frame.at, frame.size).map((tick) => tick.svg).join("");
  return frame;
}

// A curve without its ends outside the frame, which would take time and show nothing.
function seen(curve) {
  const far = ([x, y]) => Math.max(Math.abs(x), Math.abs(y)) > FRAME;
  let first = 0, last = curve.length - 1;
  while (first < last - 1 && far(curve[first + 1]) && far(curve[first])) first++;
  while (last > first + 1 && far(curve[last - 1]) && far(curve[last])) last--;
  return curve.slice(first, last + 1);
}

export function drawFlow(svg, { at, path }, curves, s) {
  const own = (s.lines || []).map(([x, y]) => line(...at([-9 * x, -9 * y]), ...at([9 * x, 9 * y]), "own"));
  svg.children[1].innerHTML = own.join("") + still(s).map((p) => dot(...at(p), 1.75, "still")).join("")
    + `<path class="none flow" d="${curves.map(seen).map(path).join("")}"/>`
    + `<path class="head" d="${barbs(heads(curves), at)}"/>`;
}

export function drawRider(svg, { at, path, size, k }, X, u, dash) {
  const A = transport(X, u), [e1, e2, x] = [[1, 0], [0, 1], [1, 1]].map((p) => apply(A, p));
  const steps = X.some((v) => v) ? Math.max(2, Math.ceil(u * 16)) : 1;
  const trail = Array.from({ length: steps + 1 }, (_, i) => apply(transport(X, u * i / steps), [1, 1]));
  // Far beyond the frame in the same direction, still drawable.
  const near = (p) => p.map((v) => v / Math.max(1, ...p.map((w) => Math.abs(w) / 50)));
  const out = Math.max(Math.abs(x[0]), Math.abs(x[1])), edge = FRAME - 8 / k, lost = out > edge;
  const spot = at(lost ? x.map((v) => v * edge / out) : x);
  // Beside a corner of the carried square, on its outer side.
  const unit = (p) => { const r = Math.hypot(...p); return r ? p.map((v) => v / r) : [0, 0]; };
  const [[x1, y1], [x2, y2]] = [e1, e2].map(unit);
  const side = (i, j) => [i * x1 + j * x2, -i * y1 - j * y2];
  const long = (p) => Math.max(...p.map(Math.abs)) < FRAME && Math.hypot(...p) * k > 12;
  const tips = [["A e₁", e1, side(1, -1)], ["A e₂", e2, side(-1, 1)]].filter(([, p]) => long(p));
  const names = [{ at: spot, side: side(1, 1), gap: 9, words: "x(u)" },
    ...tips.map(([words, p, out]) => ({ at: at(p), side: out, gap: 7, words }))];
  const taken = [around(spot, 6), ...tips.map(([, p]) => around(at(p), 5))];
  svg.children[3].innerHTML = `<path class="none was" d="${path([[0, 0], [1, 0], [1, 1], [0, 1]])}Z"/>
<path class="area" d="${path([[0, 0], e1, x, e2].map(near))}Z"/>
<path class="none trail" stroke-dasharray="${dash}" d="${path(trail.map(near))}"/>`
    + arrow(at([0, 0]), at(near(e1)), "one") + arrow(at([0, 0]), at(near(e2)), "two")
    + dot(...spot, 6, lost ? "ring" : "mark")
    + place(names, size, taken, ticks(at, size).map(({ box }) => box)).join("");
}
