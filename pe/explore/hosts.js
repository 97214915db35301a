// Where a figure lives. `stage` is its place in any page. `mount` is the host that needs no kernel: it brings
// the figures of a page to life, each with a stand-in for the model that a widget would have.

import { free, recall, store } from "./address.js";
import { isolate } from "./keyboard.js";

export function stage(el, css, html) {
  const host = document.createElement("div");
  isolate(host);
  const root = host.attachShadow({ mode: "open" });
  root.innerHTML = `<style>${css}</style>${html}`;
  el.append(host);
  return root;
}

function standIn(values) {
  const heard = new Map();
  const of = (event) => heard.get(event) || heard.set(event, new Set()).get(event);
  return {
    get: (key) => values[key],
    set(key, value) {
      if (values[key] === value) return;
      values[key] = value;
      for (const call of of(`change:${key}`)) call();
    },
    on: (event, call) => of(event).add(call),
    off: (event, call) => of(event).delete(call),
    save_changes() {},
  };
}

const load = (model, key, initial, limits) => {
  for (const [name, value] of Object.entries(recall(key, initial, limits))) model.set(name, value);
};

// The window outlives its figures, so it knows their models weakly and forgets those that are gone.
function heed(weak, key, initial, limits) {
  const heard = () => {
    const model = weak.deref();
    if (model) load(model, key, initial, limits); else removeEventListener("hashchange", heard);
  };
  addEventListener("hashchange", heard);
}

// Keep the state in the page's address as well: in when the figure opens and whenever a reader edits the
// address, out when a move has come to rest, because browsers ration changes of the address.
function remember(model, figure, name, initial, limits) {
  const rank = [...document.querySelectorAll(`[data-pe^="${name}-"]`)].indexOf(figure);
  const key = rank ? `${name}-${rank + 1}` : name;
  const state = () => Object.keys(initial).map((k) => [k, model.get(k)]);
  let rest;
  model.save_changes = () => {
    clearTimeout(rest);
    rest = setTimeout(() => figure.isConnected && store(key, Object.fromEntries(state()), initial), 150);
  };
  load(model, key, initial, limits);
  heed(new WeakRef(model), key, initial, limits);
}

export function mount(renders, css, configs, figures) {
  for (const [name, id, state] of figures) {
    for (const figure of document.querySelectorAll(`[data-pe="${id}"]:not([data-live])`)) {
      const el = document.createElement("div"), still = [...figure.children];
      const config = { ...configs[name], css }, model = standIn({ ...state, config });
      figure.dataset.live = "1";
      for (const child of still) child.hidden = true;
      figure.append(el);
      try {
        renders[name]({ model, el });
        if (free()) remember(model, figure, name, state, config.limits);
      } catch (error) {
        el.remove();
        for (const child of still) child.hidden = false;
        console.error(error);
      }
    }
  }
}
