// The generator figure: change a 2 x 2 X, move the gap u, and watch exp(uX) turn, fade, slide or explode.
// Words, presets, limits and dashes come from Python through the model.

import { fit, layers } from "./axes.js";
import { copy } from "./clipboard.js";
import { shade } from "./colours.js";
import { connect, control, range } from "./controls.js";
import { drag } from "./drag.js";
import { stage } from "./hosts.js";
import { pages } from "./keyboard.js";
import { numbers, plainest, rebase, study } from "./matrix.js";
import { plain } from "./numbers.js";
import { drawPlane, drawTrace, framePlane, frameTrace, TRACES } from "./planes.js";
import { player } from "./player.js";
import { drawFlow, drawRider, framePortrait } from "./portrait.js";
import { hold } from "./state.js";
import { flow } from "./trajectories.js";

const labels = {
  eigenvalues: "eigenvalues", directions: "eigen-directions", "trace-det": "trace, determinant",
  "half-life": "half-life", period: "period", A: "<i>A</i>(<i>u</i>) = exp(<i>uX</i>)",
  det: "det <i>A</i>(<i>u</i>)", x: "<i>x</i>(<i>u</i>)",
};

const spaced = (name) => name.replace("+", " + ");

const page = ({ presets, limits }) => {
  const row = ([key, label]) => `<div><dt>${label}</dt><dd data-testid="${key}"></dd></div>`;
  return `<div class="card"><div><h2 data-testid="title"></h2><p class="sub"><i>x</i>′ = <i>Xx</i>:
every curve is a solution. Change <i>X</i>, then move the gap <i>u</i> and watch the unit square ride the
flow.</p></div>
<div class="row" role="group" aria-label="Presets">${Object.keys(presets).map((name) =>
    `<button data-preset="${name}" data-words="${spaced(name)}">${spaced(name)}</button>`).join("")}
<button class="push" data-testid="basis">change basis</button></div>
<div class="cols"><div class="portrait"><svg role="img" data-testid="portrait">${layers(4)}</svg>
<p class="legend"><span><b>●</b> <i>x</i>(<i>u</i>) = <i>A</i>(<i>u</i>) <i>x</i>(0):
the solution of <i>x</i>′ = <i>Xx</i> from (1, 1)</span>
<span><span class="swatch"></span> the unit square, carried by <i>A</i>(<i>u</i>)</span></p></div>
<div><div class="minis"><figure><p>eigenvalues</p>
<svg role="img" data-testid="plane">${layers(2)}</svg></figure>
<figure title="drag the point"><p>trace, determinant</p>
<svg role="img" data-testid="trace-plane">${layers(2)}</svg></figure></div>
<p class="kind" data-testid="kind"></p><dl>${Object.entries(labels).map(row).join("")}</dl></div></div><hr>
<p class="entries"><i>X</i> =<span class="matrix"><i>a</i><i>b</i><i>c</i><i>d</i></span>=
<span class="matrix" data-testid="X"></span><span class="push" data-testid="limits" role="status">entries
${range(limits.a)}, <i>u</i> ${range(limits.u)}</span></p>
<div class="controls" role="group" aria-label="Entries of X = [[a, b], [c, d]] and the gap u">
${[..."abcd"].map((key) => control(key, limits[key], key)).join("")}
<div class="gap">${control("u", limits.u, "gap u")}<button data-testid="play">play</button></div></div>
<p class="notice" data-testid="notice"></p>
<div class="python"><code data-testid="code"></code><button data-testid="copy">copy as Python</button></div>
<p class="said" aria-live="polite" data-testid="said"></p></div>`;
};

export function render({ model, el }) {
  const config = model.get("config"), { presets, kinds, dash, limits } = config;
  const root = stage(el, config.css, page(config));
  const nodes = [...root.querySelectorAll("[data-testid]")].map((node) => [node.dataset.testid, node]);
  const named = Object.fromEntries(nodes), at = (name) => named[name];
  const buttons = [...root.querySelectorAll("[data-preset]")];
  const card = root.querySelector(".card"), basis = at("basis");
  const plots = ["portrait", "plane", "trace-plane"].map(at), [portrait, plane, trace] = plots;
  const { read, write, release } = hold(model, Object.keys(limits), update);
  const matrix = () => [..."abcd"].map(read);
  let drawn = null, curves, s, frames, straight = null;

  const put = (name, words) => { if (at(name).textContent !== words) at(name).textContent = words; };

  function update(resized = false) {
    const X = matrix(), u = read("u"), key = X.join();
    shade(root.host);
    if (key !== drawn) { s = study(X); curves = flow(X, s); }
    if (resized) {
      fit(plots);
      frames = [framePortrait(portrait), framePlane(plane), frameTrace(trace)];
    }
    if (resized || frames && key !== drawn) {
      drawFlow(portrait, frames[0], curves, s);
      drawPlane(plane, frames[1], s);
      drawTrace(trace, frames[2], s);
      drawn = key;
    }
    const kind = kinds[s.kind], shown = numbers(X, u, s), words = kind.name.map(([word]) => word).join(" ");
    const accent = `var(--${kind.accent})`;
    if (card.style.getPropertyValue("--accent") !== accent) card.style.setProperty("--accent", accent);
    if (frames) drawRider(portrait, frames[0], X, u, dash[kind.accent]);
    put("title", kind.title);
    put("notice", kind.notice);
    const name = kind.name.map(([word, colour]) => `<b style="color:var(--${colour})">${word}</b>`).join(" ");
    at("kind").innerHTML = `${name} → ${kind.model}`;
    for (const [key, value] of Object.entries(shown)) if (key !== "A") put(key, value);
    const entries = shown.A.split(" ").map((value) => `<span>${value}</span>`).join(" ");
    at("A").innerHTML = `<div class="matrix">${entries}</div>`;
    at("X").innerHTML = X.map((value) => `<span>${plain(value)}</span>`).join("");
    const [a, b, c, d] = X;
    put("code", `pe.explore.generator(X=[[${a}, ${b}], [${c}, ${d}]], u=${u})`);
    portrait.setAttribute("aria-label", `Phase portrait, ${words}: x(${u}) = ${shown.x}`);
    plane.setAttribute("aria-label", `Eigenvalues ${shown.eigenvalues}`);
    trace.setAttribute("aria-label", `Trace, determinant ${shown["trace-det"]}`);
    show(words);
    if (straight && straight.sheared !== key) straight = null;
    const origin = (straight ? straight.X : X).join(), other = rebase(X, limits.a);
    for (const button of buttons) {
      const pressed = presets[button.dataset.preset].slice(0, 4).join() === origin;
      button.setAttribute("aria-pressed", String(pressed));
    }
    basis.textContent = straight ? "change back" : "change basis";
    basis.disabled = !straight && other.join() === key;
    basis.title = basis.disabled ? "X is the same in every basis" : "";
  }
  const say = () => {
    const [kind, notice, x] = ["kind", "notice", "x"].map((name) => at(name).textContent);
    at("said").textContent = `${kind}. ${notice} x(u) = ${x}`;
  };

  const play = player(at("play"), limits.u[1], {
    read: () => read("u"), write: (u) => write({ u }), say,
  });
  const show = connect(root, limits, {
    read, say, told: at("limits"),
    write(change) {
      if ("u" in change) play.stop();
      write(change);
    },
  });
  pages(root);
  const enter = ([a, b, c, d]) => write({ a, b, c, d });
  drag(trace, TRACES, { move: (point) => enter(plainest(point, limits.a)), done: say });
  root.addEventListener("click", async ({ target }) => {
    if (target.dataset.preset) {
      play.stop();
      const [a, b, c, d, u] = presets[target.dataset.preset];
      write({ a, b, c, d, u });
      say();
    } else if (target === basis) {
      const X = matrix(), next = straight ? straight.X : rebase(X, limits.a);
      straight = straight ? null : { X, sheared: next.join() };
      enter(next);
      say();
    } else if (target === at("play")) play.press();
    else if (target === at("copy")) {
      target.textContent = at("said").textContent = await copy(at("code"));
      setTimeout(() => { target.textContent = "copy as Python"; }, 2000);
    }
  });
  const sized = new ResizeObserver(() => { if (portrait.clientWidth) update(true); });
  sized.observe(root.querySelector(".cols"));
  update(portrait.clientWidth > 0);   // what has no size yet is drawn when it gets one
  return () => {
    play.stop();
    sized.disconnect();
    release();
  };
}
