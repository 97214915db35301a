// Copy the words of an element. Where a page may not write to the clipboard they are left selected.

export async function copy(element) {
  try {
    await navigator.clipboard.writeText(element.textContent);
    return "copied";
  } catch {
    getSelection().selectAllChildren(element);
    return document.execCommand("copy") ? "copied" : "selected: now press Ctrl+C";
  }
}
