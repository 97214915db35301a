// Keys of a figure: the browser's own for sliders and boxes, and ten steps a page in all of them.

// JupyterLab and Notebook 7 listen on the document, before any figure, and see the shadow host as the target.
// This attribute there, and nowhere else, makes them leave the arrow keys alone.
export function isolate(host) {
  host.dataset.lmSuppressShortcuts = "true";
}

export function pages(root) {
  root.addEventListener("keydown", (event) => {
    const { target, key } = event;
    if (target.tagName !== "INPUT" || (key !== "PageUp" && key !== "PageDown")) return;
    event.preventDefault();
    if (key === "PageUp") target.stepUp(10); else target.stepDown(10);
    for (const name of ["input", "change"]) target.dispatchEvent(new Event(name, { bubbles: true }));
  });
}
