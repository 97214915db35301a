// The phase portrait: the flow of x' = Xx, and the unit square and one solution riding it.

import { arrow, barbs, dot, line, round, scale, text } from "./axes.js";
import { apply, transport } from "./matrix.js";
import { plain } from "./numbers.js";
import { FRAME, heads, still } from "./trajectories.js";

// Layers of the portrait: grid, flow, labels of the axes, and what rides the flow.
export function framePortrait(svg) {
  const frame = scale(svg, FRAME), { at, grid, size } = frame;
  const tick = (x, y, i) => `<rect class="plate" x="${round(x - 11)}" y="${round(y - 10)}"/>`
    + text(x, y, plain(i), "middle", "bare");
  svg.children[0].innerHTML = grid;
  svg.children[2].innerHTML = [-2, -1, 1, 2].map((i) =>
    tick(at([i, 0])[0], size - 10, i) + tick(11, at([0, i])[1], i)).join("");
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
  const near = (p) => p.map((v) => Math.max(-50, Math.min(50, v)));   // far beyond the frame, still drawable
  // Beside a corner of the carried square, on its outer side; held inside the frame.
  const unit = (p) => { const r = Math.hypot(...p); return r ? p.map((v) => v / r) : [0, 0]; };
  const [f1, f2] = [e1, e2].map(unit);
  const label = ([px, py], i, j, words, gap) => {
    const [x, y] = unit([i * f1[0] + j * f2[0], i * f1[1] + j * f2[1]]);
    const end = x > 0.3 ? 1 : x < -0.3 ? -1 : 0, wide = 34;
    const reach = px + gap * x + end * wide, flip = reach < 2 || reach > size - 2 ? -end : end;
    const lx = flip === end ? px + gap * x : px - gap * x, ly = py - (gap + 4) * y;
    const hold = (v, margin) => Math.max(margin, Math.min(size - margin, v));
    return text(hold(lx, end ? 2 : 20), hold(ly, 12), words, ["end", "middle", "start"][flip + 1], "v");
  };
  const tip = (p, i, words) => Math.max(...p.map(Math.abs)) < FRAME && Math.hypot(...p) * k > 12
    ? label(at(p), i, -i, words, 12) : "";
  const out = Math.max(Math.abs(x[0]), Math.abs(x[1])), edge = FRAME - 8 / k, lost = out > edge;
  const spot = at(lost ? x.map((v) => v * edge / out) : x);
  const tight = Math.abs(spot[0] - size / 2) > size / 2 - 48 || Math.abs(spot[1] - size / 2) > size / 2 - 24;
  const aside = spot[0] > size / 2 ? "end" : "start", roomy = Math.abs(spot[1] - size / 2) < size / 2 - 34;
  const name = tight ? text(spot[0], spot[1] + ((x[1] < 0) === roomy ? 20 : -20), "x(u)", aside, "v")
    : label(spot, 1, 1, "x(u)", 11);
  svg.children[3].innerHTML = `<path class="none was" d="${path([[0, 0], [1, 0], [1, 1], [0, 1]])}Z"/>
<path class="area" d="${path([[0, 0], e1, x, e2].map(near))}Z"/>
<path class="none trail" stroke-dasharray="${dash}" d="${path(trail.map(near))}"/>`
    + arrow(at([0, 0]), at(near(e1)), "one") + arrow(at([0, 0]), at(near(e2)), "two")
    + tip(e1, 1, "A e₁") + tip(e2, -1, "A e₂") + dot(...spot, 6, lost ? "ring" : "mark") + name;
}
