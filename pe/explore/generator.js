// The generator figure: change a 2 x 2 X, move the gap u, and watch exp(uX) turn, fade, slide or explode.
// Words, presets, limits and colours come from Python through the model. Above the marker line is arithmetic,
// the twin of pe/plot/data.py and pe/plot/trajectories.py, which say why; below it is drawing.

const FRAME = 3, RING = 4.4;

function transport([a, b, c, d], u) {
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

const apply = ([a, b, c, d], [x, y]) => [a * x + b * y, c * x + d * y];

// The entries as whole numbers over one power of ten: what the reader typed, so that zero means zero.
function integers(X) {
  const parts = X.map((value) => {
    const [mantissa, exponent = "0"] = String(value).split("e");
    const [whole, fraction = ""] = mantissa.split(".");
    return { n: BigInt(whole + fraction), k: fraction.length - Number(exponent) };
  });
  const k = Math.max(0, ...parts.map((p) => p.k));
  return { n: parts.map((p) => p.n * 10n ** BigInt(k - p.k)), scale: 10 ** k };
}

// The class and the eigenvalues, decided in whole numbers.
function study(X) {
  const { n: [a, b, c, d], scale } = integers(X);
  const tr = a + d, det = a * d - b * c, four = (a - d) * (a - d) + 4n * b * c;
  const D = Number(four) / (4 * scale * scale), mean = Number(tr) / (2 * scale);
  const trace = Number(tr) / scale, determinant = Number(det) / (scale * scale);
  const root = Math.sqrt(Math.abs(D));
  const defective = four === 0n && (b !== 0n || c !== 0n), every = four === 0n && !defective;
  const kind = det < 0n ? "mixed" : tr > 0n ? "explode"
    : tr < 0n ? (four < 0n ? "turn+fade" : defective ? "fading slide" : "fade")
    : four < 0n ? "turn" : defective ? "slide" : "nothing";
  if (four < 0n) return { kind, trace, determinant, D, re: [mean, mean], im: root, lines: [] };
  const far = mean < 0 ? mean - root : mean + root, near = far && root ? determinant / far : far;
  const re = [Math.max(far, near), Math.min(far, near)];
  const lines = every ? null : [...new Set(re)].map((value) => {
    const p = [X[1], value - X[0]], q = [value - X[3], X[2]];
    const [x, y] = Math.hypot(...p) >= Math.hypot(...q) ? p : q, r = Math.hypot(x, y);
    return [x / r, y / r];
  });
  return { kind, trace, determinant, D, re, im: 0, lines };
}

function decimals(value) {
  const size = Math.abs(value);
  const text = size === 0 ? "0.0000" : size >= 1e5 ? size.toExponential(3)
    : size >= 0.01 ? size.toFixed(4) : size.toPrecision(4);
  return (value < 0 ? "\u2212" : "") + text.replace("e+", "e").replace("-", "\u2212");
}

function numbers(X, u, s) {
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

function flow(X, { kind, D, lines, re, determinant }) {
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

function heads(curves, every = 2.6) {
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
function still(s) {
  const steps = Array.from({ length: 11 }, (_, i) => (i - 5) / 2);
  if (s.lines === null && s.trace === 0) return steps.flatMap((x) => steps.map((y) => [x, y]));
  const zero = s.lines && s.lines[s.lines.length > 1 ? s.re.indexOf(0) : 0];
  return s.determinant === 0 && zero ? steps.map((r) => [r * zero[0], r * zero[1]]) : [[0, 0]];
}

// X in other coordinates, exactly: P X P^-1 for a shear by h = 1/2, P = [[1, 0], [h, 1]]; where that commutes
// with X and so would change nothing, for P = [[1, h], [0, 1]].
function shear([a, b, c, d]) {
  if (b === 0 && a === d) return sheared([a, c, b, d], -50n).map((_, i, all) => all[[0, 2, 1, 3][i]]);
  return sheared([a, b, c, d], 50n);
}
function sheared(X, H) {
  const { n: [a, b, c, d], scale } = integers(X);
  const n = [10000n * a - 100n * H * b, 10000n * b, 10000n * c + 100n * H * (a - d) - H * H * b,
    10000n * d + 100n * H * b];
  return n.map((value) => Number(value) / (10000 * scale));
}

// ---- drawing ----

const labels = {
  eigenvalues: "eigenvalues", directions: "eigen-directions", "trace-det": "trace, determinant",
  "half-life": "half-life", period: "period", A: "<i>A</i>(<i>u</i>) = exp(<i>uX</i>)",
  det: "det <i>A</i>(<i>u</i>)", x: "<i>x</i>(<i>u</i>)",
};

const page = ({ presets, limits }) => {
  const control = (key, [low, high, step], word) => `<div class="control"><label for="${key}">${key}</label>
<input type="range" id="${key}" data-key="${key}" data-testid="range-${key}" min="${low}" max="${high}"
 step="${step}"><input type="number" data-key="${key}" data-testid="number-${key}" min="${low}" max="${high}"
 step="${step}" aria-label="${word}, typed"></div>`;
  const row = ([key, label]) => `<div><dt>${label}</dt><dd data-testid="${key}"></dd></div>`;
  return `<div class="card"><div><h2 data-testid="title"></h2><p class="sub"><i>x</i>′ = <i>Xx</i>:
every curve is a solution. Change <i>X</i>, then move the gap <i>u</i> and watch the unit square ride the
flow.</p></div>
<div class="row" role="group" aria-label="Presets">${Object.keys(presets).map((name) =>
    `<button data-preset="${name}">${name.replace("+", " + ")}</button>`).join("")}
<button class="push" data-testid="basis">change basis</button></div>
<div class="cols"><div class="portrait"><svg role="img" data-testid="portrait"><g></g><g></g></svg>
<p class="legend"><span><b>●</b> <i>x</i>(<i>u</i>) = <i>A</i>(<i>u</i>) <i>x</i>(0):
the solution of <i>x</i>′ = <i>Xx</i> from (1, 1)</span>
<span><span class="swatch"></span> the unit square, carried by <i>A</i>(<i>u</i>)</span></p></div>
<div><div class="minis"><figure><p>eigenvalues</p><svg role="img" data-testid="plane"></svg></figure>
<figure><p>trace and determinant</p><svg role="img" data-testid="trace-plane"></svg></figure></div>
<p class="kind" data-testid="kind"></p><dl>${Object.entries(labels).map(row).join("")}</dl></div></div><hr>
<p class="entries"><i>X</i> =<span class="matrix"><i>a</i><i>b</i><i>c</i><i>d</i></span>=
<span class="matrix" data-testid="X"></span><span class="push" data-testid="limits" role="status"></span></p>
<div class="controls" role="group" aria-label="Entries of X = [[a, b], [c, d]] and the gap u">
${[..."abcd"].map((key) => control(key, limits.entry, key)).join("")}
<div class="gap">${control("u", limits.u, "gap u")}<button data-testid="play">play</button></div></div>
<p class="notice" data-testid="notice"></p><p class="code" data-testid="code"></p>
<p class="said" aria-live="polite" data-testid="said"></p></div>`;
};

const round = (v) => Math.round(v * 10) / 10;
const line = (x1, y1, x2, y2, name) =>
  `<line class="${name}" x1="${round(x1)}" y1="${round(y1)}" x2="${round(x2)}" y2="${round(y2)}"/>`;
const dot = (x, y, r, name) => `<circle class="${name}" cx="${round(x)}" cy="${round(y)}" r="${r}"/>`;
const text = (x, y, words, anchor = "middle", name = "") =>
  `<text x="${round(x)}" y="${round(y)}" dy=".35em" text-anchor="${anchor}" class="${name}">${words}</text>`;
const whole = (v) => String(v).replace("-", "\u2212");

// Fit square plots to their columns. All widths are read before anything is written: one layout, not three.
function fit(plots) {
  const sizes = plots.map((svg) => svg.clientWidth);
  for (const [i, svg] of plots.entries()) {
    svg.setAttribute("viewBox", `0 0 ${sizes[i]} ${sizes[i]}`);
    svg.style.height = `${sizes[i]}px`;
  }
}

// Pixels of a square plot over [-reach, reach]^2, with zero lines and a grid on the whole numbers.
function scale(svg, reach) {
  const size = svg.viewBox.baseVal.width, k = size / (2 * reach);
  const at = ([x, y]) => [(reach + x) * k, (reach - y) * k];
  const path = (points) => "M" + points.map((p) => at(p).map(round).join()).join("L");
  let grid = "";
  for (let i = Math.ceil(-reach) + (reach % 1 === 0); Math.abs(i) < reach; i++) {
    const [v, h] = at([i, i]), name = i ? "grid" : "zero";
    grid += line(v, 0, v, size, name) + line(0, h, size, h, name);
  }
  return { at, path, grid, size, k };
}

function arrow([x1, y1], [x2, y2], name) {
  const length = Math.hypot(x2 - x1, y2 - y1), r = Math.min(9, length);
  if (length < 1) return "";
  const c = (x2 - x1) / length, s = (y2 - y1) / length, x = x2 - r * c, y = y2 - r * s, w = r * 0.45;
  return line(x1, y1, x, y, `vec ${name}`) + `<path class="tip" d="M${[x2, y2].map(round)}L${
    [x - w * s, y + w * c].map(round)}L${[x + w * s, y - w * c].map(round)}Z"/>`;
}

function drawFlow(svg, curves, s) {
  const { at, path, grid, size, k } = scale(svg, FRAME);
  const marks = heads(curves).map(([x, y, angle]) => {
    const [px, py] = at([x, y]), c = Math.cos(angle) * 4.5, n = -Math.sin(angle) * 4.5;
    return `M${round(px + c)} ${round(py + n)}L${round(px - c - n * 0.7)} ${round(py - n + c * 0.7)}L${
      round(px - c + n * 0.7)} ${round(py - n - c * 0.7)}Z`;
  }).join("");
  const tick = (x, y, i) => `<rect class="plate" x="${round(x - 11)}" y="${round(y - 10)}"/>`
    + text(x, y, whole(i), "middle", "bare");
  const ticks = [-2, -1, 1, 2].map((i) =>
    tick(at([i, 0])[0], size - 10, i) + tick(11, at([0, i])[1], i)).join("");
  const own = (s.lines || []).map(([x, y]) => line(...at([-9 * x, -9 * y]), ...at([9 * x, 9 * y]), "own"));
  svg.firstChild.innerHTML = grid + own.join("") + still(s).map((p) => dot(...at(p), 1.75, "still")).join("")
    + `<path class="none flow" d="${curves.map(path).join("")}"/><path class="head" d="${marks}"/>` + ticks;
  return { at, path, size, k };
}

function drawRider(svg, { at, path, size, k }, X, u, dash) {
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
    ? label(at(p), i, -i, words, 9) : "";
  const out = Math.max(Math.abs(x[0]), Math.abs(x[1])), edge = FRAME - 8 / k, lost = out > edge;
  const spot = at(lost ? x.map((v) => v * edge / out) : x);
  const tight = Math.abs(spot[0] - size / 2) > size / 2 - 48 || Math.abs(spot[1] - size / 2) > size / 2 - 24;
  const aside = spot[0] > size / 2 ? "end" : "start";
  const name = tight ? text(spot[0], spot[1] + (x[1] > 0 ? 20 : -20), "x(u)", aside, "v")
    : label(spot, 1, 1, "x(u)", 11);
  svg.lastChild.innerHTML = `<path class="none was" d="${path([[0, 0], [1, 0], [1, 1], [0, 1]])}Z"/>
<path class="area" d="${path([[0, 0], e1, x, e2].map(near))}Z"/>
<path class="none trail" stroke-dasharray="${dash}" d="${path(trail.map(near))}"/>`
    + arrow(at([0, 0]), at(near(e1)), "one") + arrow(at([0, 0]), at(near(e2)), "two")
    + tip(e1, 1, "A e₁") + tip(e2, -1, "A e₂") + dot(...spot, 6, lost ? "ring" : "mark") + name;
}

function drawPlane(svg, s) {
  const { at, grid, size } = scale(svg, 2.5), [o] = at([0, 0]);
  const hold = (v) => Math.max(-2.3, Math.min(2.3, v)), twice = !s.im && s.re[0] === s.re[1];
  const [p, q] = s.re.map((re, i) => at([hold(re), hold(i ? -s.im : s.im)]));
  const [unit] = at([1, 0]), step = unit - o;
  svg.innerHTML = `<rect class="bad" x="${o}" width="${o}" height="${size}"/>` + grid
    + text(o - step, o + 13, "\u22121") + text(o + step, o + 13, "1", "middle", "bare")
    + text(o - 14, o - step, "i", "end") + text(o - 14, o + step, "\u2212i", "end")
    + text(8, 13, "fades", "start") + text(size - 8, 13, "explodes", "end", "bare")
    + dot(...q, 6, "ring") + dot(...p, twice ? 4 : 6, twice ? "dot" : "mark")
    + (twice ? text(p[0] + 20, p[1] - 13, "×2") : "");
}

function drawTrace(svg, s) {
  const { at, path, grid, size } = scale(svg, 4), [o] = at([0, 0]);
  const hold = (v) => Math.max(-3.7, Math.min(3.7, v));
  const parabola = Array.from({ length: 65 }, (_, i) => [i / 8 - 4, (i / 8 - 4) ** 2 / 4]);
  svg.innerHTML = `<path class="bad" d="M0 ${o}H${o}V0H${size}V${size}H0Z"/>` + grid
    + `<path class="none zero" d="${path(parabola)}"/>`
    + text(at([-1.75, 0])[0], 13, "turn + fade") + text(6, at([0, 0.6])[1], "fade", "start")
    + text(at([1.75, 0])[0], 13, "explodes", "middle", "bare")
    + text(o, at([0, -2.2])[1], "saddles", "middle", "bare")
    + dot(...at([hold(s.trace), hold(s.determinant)]), 6, "mark");
}

function theme() {
  const at = (query, name) => document.querySelector(query)?.getAttribute(name);
  const lab = at("[data-jp-theme-light]", "data-jp-theme-light");
  const other = at("body[data-vscode-theme-kind]", "data-vscode-theme-kind") || at("html[theme]", "theme");
  if (lab) return lab === "true" ? "light" : "dark";
  return other ? (/dark|black/.test(other) ? "dark" : "light") : null;
}

function render({ model, el }) {
  const config = model.get("config"), { presets, kinds, dash } = config;
  const host = document.createElement("div");
  host.dataset.lmSuppressShortcuts = "true";   // on the host: JupyterLab takes the arrow keys away otherwise
  const shade = theme();
  if (shade) host.dataset.theme = shade;
  const root = host.attachShadow({ mode: "open" });
  root.innerHTML = `<style>${config.css}</style>${page(config)}`;
  el.append(host);
  const at = (name) => root.querySelector(`[data-testid="${name}"]`);
  const inputs = [...root.querySelectorAll("input")], buttons = [...root.querySelectorAll("[data-preset]")];
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const portrait = at("portrait"), play = at("play"), basis = at("basis");
  const end = config.limits.u[1];
  let drawn = null, curves, s, frame, playing = 0, straight = null;

  const read = () => ({ X: [..."abcd"].map((key) => model.get(key)), u: model.get("u") });
  function write(change) {
    for (const [key, value] of Object.entries(change)) model.set(key, value);
    model.save_changes();
    update();
  }

  function update(resized = false) {
    const { X, u } = read(), key = X.join();
    if (key !== drawn) { s = study(X); curves = flow(X, s); }
    if (resized) fit([portrait, at("plane"), at("trace-plane")]);
    if (key !== drawn || resized) {
      frame = drawFlow(portrait, curves, s);
      drawPlane(at("plane"), s);
      drawTrace(at("trace-plane"), s);
      drawn = key;
    }
    const kind = kinds[s.kind], shown = numbers(X, u, s), words = kind.name.map(([word]) => word).join(" ");
    root.querySelector(".card").style.setProperty("--accent", `var(--${kind.accent})`);
    drawRider(portrait, frame, X, u, dash[kind.accent]);
    at("title").textContent = kind.title;
    at("notice").textContent = kind.notice;
    const name = kind.name.map(([word, colour]) => `<b style="color:var(--${colour})">${word}</b>`).join(" ");
    at("kind").innerHTML = `${name} → ${kind.model}`;
    for (const [key, value] of Object.entries(shown)) at(key).textContent = value;
    const entries = shown.A.split(" ").map((value) => `<span>${value}</span>`).join(" ");
    at("A").innerHTML = `<div class="matrix">${entries}</div>`;
    at("X").innerHTML = X.map((value) => `<span>${whole(value)}</span>`).join("");
    const [a, b, c, d] = X;
    at("code").textContent = `pe.explore.generator(X=[[${a}, ${b}], [${c}, ${d}]], u=${u})`;
    portrait.setAttribute("aria-label", `Phase portrait, ${words}: x(${u}) = ${shown.x}`);
    at("plane").setAttribute("aria-label", `Eigenvalues ${shown.eigenvalues}`);
    at("trace-plane").setAttribute("aria-label", `Trace, determinant ${shown["trace-det"]}`);
    for (const input of inputs) {
      const value = model.get(input.dataset.key), low = +input.min, high = +input.max;
      if (root.activeElement !== input || input.type === "range") input.value = value;
      input.style.setProperty("--at", (value - low) / (high - low));
      input.style.setProperty("--zero", -low / (high - low));
      input.setAttribute("aria-valuetext", `${input.dataset.key} = ${whole(value)}, ${words}`);
    }
    if (straight && straight.sheared !== key) straight = null;
    const origin = (straight ? straight.X : X).join(), other = shear(X);
    for (const button of buttons) {
      const pressed = presets[button.dataset.preset].slice(0, 4).join() === origin;
      button.setAttribute("aria-pressed", String(pressed));
    }
    const alike = other.join() === key, [low, high] = config.limits.entry;
    basis.textContent = straight ? "change back" : alike ? "the same in every basis" : "change basis";
    basis.disabled = !straight && (alike || other.some((v) => v < low || v > high));
  }
  // Say how far the entries and the gap go; where a typed number went beyond, in bold.
  const tell = (key, value) => {
    const { entry, u } = config.limits, range = ([low, high]) => `from ${whole(low)} to ${whole(high)}`;
    at("limits").innerHTML = !key ? `entries ${range(entry)}, <i>u</i> ${range(u)}`
      : `<b>${key} = ${whole(+value)} is outside: ${range(key === "u" ? u : entry)}</b>`;
  };
  const say = () => {
    const [kind, notice, x] = ["kind", "notice", "x"].map((name) => at(name).textContent);
    at("said").textContent = `${kind}. ${notice} x(u) = ${x}`;
  };

  function stop() {
    cancelAnimationFrame(playing);
    playing = 0;
    play.textContent = calm ? "step" : "play";
  }
  function start() {
    let from = read().u < end ? read().u : 0, since = null;
    const tick = (now) => {
      if (!host.isConnected) return;
      since ??= now - from * 1000;
      const u = Math.min(Math.round((now - since) / 10) / 100, end);
      write({ u });
      if (u < end) playing = requestAnimationFrame(tick); else { stop(); say(); }
    };
    play.textContent = "pause";
    playing = requestAnimationFrame(tick);
  }

  root.addEventListener("input", ({ target }) => {
    if (target.value.trim() === "" || !Number.isFinite(+target.value)) return;
    if (target.dataset.key === "u") stop();
    const { min, max, value } = target, kept = Math.max(+min, Math.min(+max, +value));
    if (kept !== +value) tell(target.dataset.key, value);
    write({ [target.dataset.key]: kept });
  });
  root.addEventListener("focusin", () => tell());
  root.addEventListener("change", ({ target }) => { target.value = model.get(target.dataset.key); say(); });
  root.addEventListener("click", ({ target }) => {
    if (target.dataset?.preset) {
      stop();
      const [a, b, c, d, u] = presets[target.dataset.preset];
      write({ a, b, c, d, u });
    } else if (target === basis) {
      const { X } = read(), next = straight ? straight.X : shear(X);
      straight = straight ? null : { X, sheared: next.join() };
      write({ a: next[0], b: next[1], c: next[2], d: next[3] });
    } else if (target === play) {
      const { u } = read();
      if (calm) write({ u: u < end ? Math.min(Math.round(u * 10 + 5) / 10, end) : 0 });
      else if (playing) stop();
      else return start();
    } else return;
    say();
  });
  const changed = () => update();
  for (const key of "abcdu") model.on(`change:${key}`, changed);
  const sized = new ResizeObserver(() => { if (portrait.clientWidth) update(true); });
  sized.observe(root.querySelector(".cols"));
  stop();
  tell();
  update(true);
  return () => {
    stop();
    sized.disconnect();
    for (const key of "abcdu") model.off(`change:${key}`, changed);
  };
}

export default { render };
