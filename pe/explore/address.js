// The state of a page's figures in the page's address: #generator=0,-1,1,0,0.8&generator-2=0,1,0,0,5
// Each figure reads and writes its own part only; other parts, such as the name of a heading, are kept.

const parts = () => location.hash.slice(1).split("&").filter(Boolean);

// Notebook applications have addresses, and uses for them, of their own.
export const free = () =>
  !document.getElementById("jupyter-config-data") && !document.body.dataset.vscodeThemeKind;

// The state stored under `key`: `initial` where there is none, or none that the sliders could show.
export function recall(key, initial, limits) {
  const found = parts().find((part) => part.startsWith(`${key}=`));
  const names = Object.keys(initial), words = found ? found.slice(key.length + 1).split(",") : [];
  const allowed = (word, [low, high]) => word !== "" && +word >= low && +word <= high;
  const good = words.length === names.length && names.every((name, i) => allowed(words[i], limits[name]));
  if (!good) return initial;
  return Object.fromEntries(names.map((name, i) => [name, +words[i]]));
}

export function store(key, state, initial) {
  const names = Object.keys(initial), kept = parts().filter((part) => !part.startsWith(`${key}=`));
  const moved = names.some((name) => state[name] !== initial[name]), [page] = location.href.split("#");
  if (moved) kept.push(`${key}=${names.map((name) => state[name])}`);
  try {
    history.replaceState(history.state, "", page + (kept.length ? "#" + kept.join("&") : ""));
  } catch { /* a frame that may not touch its address still has a figure that moves */ }
}
