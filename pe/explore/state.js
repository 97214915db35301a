// The state of a figure, kept by the model of its host: a widget's in a notebook, a stand-in on a page.

// Call `update` once for each change, wherever it comes from: a control of the figure or the other side.
export function hold(model, keys, update) {
  let writing = false;
  const changed = () => { if (!writing) update(); };
  for (const key of keys) model.on(`change:${key}`, changed);
  return {
    read: (key) => model.get(key),
    write(change) {
      writing = true;
      for (const [key, value] of Object.entries(change)) model.set(key, value);
      writing = false;
      model.save_changes();
      update();
    },
    release() { for (const key of keys) model.off(`change:${key}`, changed); },
  };
}
