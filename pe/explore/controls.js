// A slider and a number box for each key of the state, and the sentence that tells their ranges.

import { plain } from "./numbers.js";

export const control = (key, [low, high, step], words) => `<div class="control">
<label for="${key}">${key}</label><input type="range" id="${key}" data-key="${key}"
 data-testid="range-${key}" min="${low}" max="${high}"
 step="${step}"><input type="number" data-key="${key}" data-testid="number-${key}" min="${low}" max="${high}"
 step="${step}" aria-label="${words}, typed"></div>`;

export const range = ([low, high]) => `from ${plain(low)} to ${plain(high)}`;

// Connect the inputs of a figure with its state. `write` takes a change of state, `say` speaks it when a move
// is done; `told` is the element for ranges, whose words come back whenever another input is entered. Returns
// the function that shows a state, given what it means in words.
export function connect(root, limits, { read, write, say, told }) {
  const inputs = [...root.querySelectorAll("input")], ranges = told.innerHTML;
  root.addEventListener("input", ({ target }) => {
    const { value, dataset: { key } } = target, limit = limits[key];
    if (value.trim() === "" || !Number.isFinite(+value)) return;
    const kept = Math.max(limit[0], Math.min(limit[1], +value));
    if (kept !== +value) told.innerHTML = `<b>${key} = ${plain(+value)} is outside: ${range(limit)}</b>`;
    write({ [key]: kept });
  });
  root.addEventListener("focusin", () => { told.innerHTML = ranges; });
  root.addEventListener("change", ({ target }) => { target.value = read(target.dataset.key); say(); });
  const shown = new Map();
  return (words) => {
    for (const input of inputs) {
      const { key } = input.dataset, value = read(key), [low, high] = limits[key];
      if (shown.get(input) === value + words) continue;
      if (root.activeElement !== input || input.type === "range") {
        input.value = value;
        shown.set(input, value + words);
      }
      input.style.setProperty("--at", (value - low) / (high - low));
      input.style.setProperty("--zero", -low / (high - low));
      input.setAttribute("aria-valuetext", `${key} = ${plain(value)}, ${words}`);
    }
  };
}
