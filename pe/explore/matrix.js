// 2 x 2 generators in closed form and in whole numbers: the twin of pe/plot/data/portrait.py.

import { decimals } from "./numbers.js";

export function transport([a, b, c, d], u) {
  const m = (a + d) / 2, h = (a - d) / 2, D = h * h + b * c, z = D * u * u, w = Math.sqrt(Math.abs(D));
  if (z > 1) {
    const P = Math.exp((m + w) * u) / 2, M = Math.exp((m - w) * u) / 2;
    const k = Math.abs(h) / w, rest = b * c / (D + w * Math.abs(h)), s = (P - M) / w;
    const large = P * (1 + k) + M * rest, small = P * rest + M * (1 + k);
    return h >= 0 ? [large, b * s, c * s, small] : [small, b * s, c * s, large];
  }
  let C, S;
  if (Math.abs(z) < 1e-4) {
    C = 1 + z / 2 * (1 + z / 12 * (1 + z / 30));
    S = u * (1 + z / 6 * (1 + z / 20 * (1 + z / 42)));
  } else if (z > 0) { C = Math.cosh(w * u); S = Math.sinh(w * u) / w; }
  else { C = Math.cos(w * u); S = Math.sin(w * u) / w; }
  const g = Math.exp(m * u);
  return [g * (C + S * h), g * b * S, g * c * S, g * (C - S * h)];
}

export const apply = ([a, b, c, d], [x, y]) => [a * x + b * y, c * x + d * y];

// The entries as whole numbers over 10^k: what the reader typed, so that zero means zero.
function integers(X) {
  const parts = X.map((value) => {
    const [mantissa, exponent = "0"] = String(value).split("e");
    const [whole, fraction = ""] = mantissa.split(".");
    return { n: BigInt(whole + fraction), k: fraction.length - Number(exponent) };
  });
  const k = Math.max(0, ...parts.map((p) => p.k));
  return { n: parts.map((p) => p.n * 10n ** BigInt(k - p.k)), k };
}

// n / 10^k: rounded once, and 10^k alone would overflow for the smallest entries.
const real = (n, k) => Number(`${n}e-${k}`);

// X in units of its largest entry, where squares of its entries would vanish; else null.
export function magnified(X) {
  const size = Math.max(...X.map(Math.abs));
  return size > 0 && size < 1e-100 ? X.map((value) => value / size) : null;
}

// The class and the eigenvalues, decided in whole numbers.
export function study(X) {
  const { n: [a, b, c, d], k } = integers(X);
  const tr = a + d, det = a * d - b * c, four = (a - d) * (a - d) + 4n * b * c;
  const D = real(four, 2 * k) / 4, mean = real(tr, k) / 2;
  const trace = real(tr, k), determinant = real(det, 2 * k);
  const root = Math.sqrt(Math.abs(D));
  const defective = four === 0n && (b !== 0n || c !== 0n), every = four === 0n && !defective;
  const kind = det < 0n ? "mixed" : tr > 0n ? "explode"
    : tr < 0n ? (four < 0n ? "turn+fade" : defective ? "fading slide" : "fade")
    : four < 0n ? "turn" : defective ? "slide" : "nothing";
  if (four < 0n) return { kind, trace, determinant, D, re: [mean, mean], im: root, lines: [] };
  const far = mean < 0 ? mean - root : mean + root, near = far && root ? determinant / far : far;
  const re = [Math.max(far, near), Math.min(far, near)];
  const large = magnified(X);
  if (large && !every) return { kind, trace, determinant, D, re, im: 0, lines: study(large).lines };
  const lines = every ? null : [...new Set(re)].map((value) => {
    const p = [X[1], value - X[0]], q = [value - X[3], X[2]];
    const [x, y] = Math.hypot(...p) >= Math.hypot(...q) ? p : q, r = Math.hypot(x, y);
    return [x / r, y / r];
  });
  return { kind, trace, determinant, D, re, im: 0, lines };
}

export function numbers(X, u, s) {
  const A = transport(X, u), x = apply(A, [1, 1]), show = decimals;
  const halves = [...new Set(s.re)].filter((r) => r < 0).map((r) => show(Math.log(2) / -r));
  return {
    eigenvalues: s.im ? `${show(s.re[0])} ± ${show(s.im)} i`
      : s.re[0] === s.re[1] ? `${show(s.re[0])}, twice` : s.re.map(show).join(", "),
    directions: s.lines === null ? "every one" : ["none", "1", "2"][s.lines.length],
    "trace-det": `${show(s.trace)}, ${show(s.determinant)}`,
    "half-life": halves.join(", ") || "none",
    period: s.im ? show(2 * Math.PI / s.im) : "none",
    A: A.map(show).join(" "),
    det: show(Math.exp(u * s.trace)),
    x: `(${x.map(show).join(", ")})`,
  };
}

// X in other coordinates, exactly: P X P^-1 for a shear by h = 1/2, P = [[1, 0], [h, 1]]; where that commutes
// with X and so would change nothing, for P = [[1, h], [0, 1]].
export function shear([a, b, c, d]) {
  if (b === 0 && a === d) return sheared([a, c, b, d], -50n).map((_, i, all) => all[[0, 2, 1, 3][i]]);
  return sheared([a, b, c, d], 50n);
}

// The basis to change to: sheared, or mirrored at the first axis where an entry would leave its slider. Only a
// multiple of I comes out as it was.
export function rebase(X, [low, high]) {
  const other = shear(X), [a, b, c, d] = X;
  return other.every((v) => low <= v && v <= high) ? other : [a, 0 - b, 0 - c, d];
}

// The plainest X with this trace and determinant, as near as the steps of the sliders come: one number on the
// diagonal and one beside it, which turns above the parabola and stretches below.
export function plainest([trace, determinant], [low, high, step]) {
  const near = (v) => Math.max(low, Math.min(high, Math.round(v / step) / Math.round(1 / step)));
  const m = near(trace / 2), D = m * m - determinant, w = near(Math.sqrt(Math.abs(D)));
  return [m, D < 0 ? 0 - w : w, w, m];
}

function sheared(X, H) {
  const { n: [a, b, c, d], k } = integers(X);
  const n = [10000n * a - 100n * H * b, 10000n * b, 10000n * c + 100n * H * (a - d) - H * H * b,
    10000n * d + 100n * H * b];
  return n.map((value) => real(value, k + 4));
}
