// Trajectories of x' = Xx for the phase portrait: the twin of pe/plot/trajectories.py.

import { apply, magnified, study, transport } from "./matrix.js";

export const FRAME = 3;   // the portrait shows [-3, 3] x [-3, 3]
const RING = 4.4;         // trajectories start on this circle

function spirals([a, , c, d], D) {
  const m = (a + d) / 2, h = (a - d) / 2, w = Math.sqrt(-D);
  const p = [Math.sqrt(w / Math.abs(c)), 0], q = [h / w * p[0], c / w * p[0]];
  const squares = (p[0] * p[0] + q[0] * q[0] + q[1] * q[1]) / 2;
  const long = Math.sqrt(squares + Math.sqrt(Math.max(squares * squares - 1, 0)));
  const period = 2 * Math.PI / w, shrink = 2 * Math.PI * Math.abs(m) / w;
  const curve = (r, phase, times) => times.map((t) => {
    const g = r * long * Math.exp(m * t), C = Math.cos(w * t + phase), S = Math.sin(w * t + phase);
    return [g * (C * p[0] + S * q[0]), g * (C * p[1] + S * q[1])];
  });
  const grid = (n, end) => Array.from({ length: n + 1 }, (_, i) => i * end / n);
  if (shrink < Math.log(1.2)) return [1, 2, 3, 4, 5, 6, 7, 8].map((k) => curve(k / 2, 0, grid(72, period)));
  const count = Math.min(Math.max(Math.round(shrink / Math.log(1.35)), 1), 8);
  const span = Math.log(RING * long / 0.3) / Math.abs(m);
  const times = grid(Math.ceil(48 * span / period) + 8, m < 0 ? span : -span);
  if (m > 0) times.reverse();
  return Array.from({ length: count }, (_, j) => curve(RING, 2 * Math.PI * j / count, times));
}

function walk(X, start, sign) {
  const [a, b, c, d] = X, cap = 0.25 / Math.max(Math.abs(a) + Math.abs(b), Math.abs(c) + Math.abs(d));
  const points = [start];
  for (let i = 0, x = start; i < 200; i++) {
    const speed = Math.hypot(...apply(X, x)), step = speed ? Math.min(0.14 / speed, cap) : cap;
    if (speed * step < 0.004) break;
    points.push(x = apply(transport(X, sign * step), x));
    if (Math.hypot(...x) < 0.12 || Math.hypot(...x) > 2 * RING) break;
  }
  return sign < 0 ? points.reverse() : points;
}

const through = (X, p) => [...walk(X, p, -1), ...walk(X, p, 1).slice(1)];

export function flow(X, s) {
  const large = magnified(X);     // which flows along the same lines
  return large ? drawn(large, { ...study(large), kind: s.kind }) : drawn(X, s);
}

function drawn(X, { kind, D, lines, re, determinant }) {
  if (kind === "nothing") return [];
  if (D < 0) return spirals(X, D);
  const scaled = ([x, y], r) => [r * x, r * y];
  const ranks = [-8, -7, -6, -5, -4, -3, -2, -1, 1, 2, 3, 4, 5, 6, 7, 8];
  if (kind === "slide") {
    const [x, y] = lines[0], v = apply(X, [-y, x]), forward = v[0] * x + v[1] * y > 0 ? RING : -RING;
    return ranks.map((k) => [-1, 1].map((end) => {
      const s = end * (k > 0 ? forward : -forward);
      return [-y * k / 2 + s * x, x * k / 2 + s * y];
    }));
  }
  if (kind === "mixed") {
    const [p, q] = lines, arms = [p, q, scaled(p, -1), scaled(q, -1)];
    const curves = arms.map((arm, i) => walk(X, scaled(arm, RING), i % 2 ? 1 : -1));
    for (const [i, [x, y]] of arms.entries()) {
      const [x2, y2] = arms[(i + 1) % 4], r = Math.hypot(x + x2, y + y2);
      const middle = [(x + x2) / r, (y + y2) / r];
      for (const k of [1, 2, 3, 4, 5]) curves.push(through(X, scaled(middle, 0.6 * k)));
    }
    return curves;
  }
  const side = kind === "explode" ? -1 : 1;
  if (determinant === 0) {
    const [p, q] = re[0] === 0 ? lines : [lines[1], lines[0]];
    return ranks.concat(0).flatMap((k) => [-RING, RING].map((end) => {
      const foot = scaled(p, k / 2), far = [foot[0] + end * q[0], foot[1] + end * q[1]];
      return side > 0 ? [far, foot] : [foot, far];
    }));
  }
  const ring = Array.from({ length: 16 }, (_, j) => 2 * Math.PI * (j + 0.5) / 16)
    .map((angle) => [RING * Math.cos(angle), RING * Math.sin(angle)]);
  if (ring.every((p) => { const v = apply(X, p); return side * (p[0] * v[0] + p[1] * v[1]) < 0; })) {
    return ring.map((p) => walk(X, p, side));
  }
  const [x, y] = lines[0];
  return ranks.map((k) => through(X, [-y * k / 2, x * k / 2]));
}

export function heads(curves, every = 2.6) {
  const found = [];
  for (const curve of curves) {
    let due = every / 2;
    for (let i = 1; i < curve.length; i++) {
      const [x, y] = curve[i - 1], dx = curve[i][0] - x, dy = curve[i][1] - y, length = Math.hypot(dx, dy);
      for (; length && due <= length; due += every) {
        const hx = x + dx * due / length, hy = y + dy * due / length;
        if (Math.max(Math.abs(hx), Math.abs(hy)) < FRAME) found.push([hx, hy, Math.atan2(dy, dx)]);
      }
      due -= length;
    }
  }
  return found;
}

// Points that never move: all of them, a line of them, or the origin alone.
export function still(s) {
  const steps = Array.from({ length: 11 }, (_, i) => (i - 5) / 2);
  if (s.lines === null && s.trace === 0) return steps.flatMap((x) => steps.map((y) => [x, y]));
  const zero = s.lines && s.lines[s.lines.length > 1 ? s.re.indexOf(0) : 0];
  return s.determinant === 0 && zero ? steps.map((r) => [r * zero[0], r * zero[1]]) : [[0, 0]];
}
