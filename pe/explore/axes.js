// Square plots in SVG, drawn in CSS pixels so that type keeps its size at any width.

export const round = (v) => Math.round(v * 10) / 10;
export const line = (x1, y1, x2, y2, name) =>
  `<line class="${name}" x1="${round(x1)}" y1="${round(y1)}" x2="${round(x2)}" y2="${round(y2)}"/>`;
export const dot = (x, y, r, name) => `<circle class="${name}" cx="${round(x)}" cy="${round(y)}" r="${r}"/>`;
export const text = (x, y, words, anchor = "middle", name = "") =>
  `<text x="${round(x)}" y="${round(y)}" dy=".35em" text-anchor="${anchor}" class="${name}">${words}</text>`;

// Fit square plots to their columns. All widths are read before anything is written: one layout, not three.
export function fit(plots) {
  const sizes = plots.map((svg) => svg.clientWidth);
  for (const [i, svg] of plots.entries()) {
    svg.setAttribute("viewBox", `0 0 ${sizes[i]} ${sizes[i]}`);
    svg.style.height = `${sizes[i]}px`;
  }
}

// Layers of a plot, from the back: what stands still in one of its own is not drawn again at every move.
export const layers = (count) => "<g></g>".repeat(count);

// Pixels of a square plot over [-reach, reach]^2, with zero lines and a grid on the whole numbers.
export function scale(svg, reach) {
  const size = svg.viewBox.baseVal.width, k = size / (2 * reach);
  const at = ([x, y]) => [(reach + x) * k, (reach - y) * k];
  const path = (points) => {
    let words = "";
    for (const [x, y] of points) {
      words += `${words ? "L" : "M"}${round((reach + x) * k)},${round((reach - y) * k)}`;
    }
    return words;
  };
  let grid = "";
  for (let i = Math.ceil(-reach) + (reach % 1 === 0); Math.abs(i) < reach; i++) {
    const [v, h] = at([i, i]), name = i ? "grid" : "zero";
    grid += line(v, 0, v, size, name) + line(0, h, size, h, name);
  }
  return { at, path, grid, size, k };
}

export function arrow([x1, y1], [x2, y2], name) {
  const length = Math.hypot(x2 - x1, y2 - y1), r = Math.min(9, length);
  if (length < 1) return "";
  const c = (x2 - x1) / length, s = (y2 - y1) / length, x = x2 - r * c, y = y2 - r * s, w = r * 0.45;
  return line(x1, y1, x, y, `vec ${name}`) + `<path class="tip" d="M${[x2, y2].map(round)}L${
    [x - w * s, y + w * c].map(round)}L${[x + w * s, y - w * c].map(round)}Z"/>`;
}

// One path of small arrow heads at [x, y, angle], in the coordinates of `at`.
export const barbs = (marks, at) => marks.map(([x, y, angle]) => {
  const [px, py] = at([x, y]), c = Math.cos(angle) * 4.5, n = -Math.sin(angle) * 4.5;
  return `M${round(px + c)} ${round(py + n)}L${round(px - c - n * 0.7)} ${round(py - n + c * 0.7)}L${
    round(px - c + n * 0.7)} ${round(py - n - c * 0.7)}Z`;
}).join("");
