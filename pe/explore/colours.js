// Which theme the page around a figure has. Notebooks say so in an attribute and are believed before the
// system. Asked again at every update: an observer of the page would keep figures alive that are long gone.

export function shade(host) {
  const { jpThemeLight, vscodeThemeKind } = document.body.dataset;
  const other = vscodeThemeKind || document.documentElement.getAttribute("theme");
  if (jpThemeLight) host.dataset.theme = jpThemeLight === "true" ? "light" : "dark";
  else if (other) host.dataset.theme = /dark|black/.test(other) ? "dark" : "light";
}
