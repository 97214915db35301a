"""Colours, dashes and type of the figure family: the one place where a behaviour gets its colour."""

#: Okabe-Ito hues; in light mode vermillion, green and purple are darkened until text in them reaches 4.5:1.
PALETTE = {
    "light": {
        "card": "#ffffff", "panel": "#f6f8fa", "ink": "#1b1f24", "muted": "#59636e", "axis": "#8c959f",
        "track": "#afb8c1", "grid": "#e4e8ec",
        "turn": "#0072b2", "fade": "#c04a00", "slide": "#00694b", "explode": "#b0267f", "nothing": "#59636e",
    },
    "dark": {
        "card": "#0f1419", "panel": "#171d24", "ink": "#e6edf3", "muted": "#9aa7b4", "axis": "#6b7785",
        "track": "#4a5561", "grid": "#242c35",
        "turn": "#56b4e9", "fade": "#ff9650", "slide": "#4fe0b0", "explode": "#d67ab8", "nothing": "#9aa7b4",
    },
}

#: For paper: the light hues on white, and greys dark enough for a printer without colours.
PRINT = PALETTE["light"] | {"panel": "#ffffff", "ink": "#000000", "muted": "#3d444d", "axis": "#59636e",
                            "grid": "#d8dde3", "nothing": "#3d444d"}

#: A behaviour is never told by colour alone: its moving point also leaves a dashed trail of its own.
DASH = {"turn": "", "fade": "6 3", "slide": "8 3 2 3", "explode": "2 3", "nothing": ""}

SANS = 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif'
MONO = 'ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace'
SERIF = '"STIX Two Text", Georgia, "DejaVu Serif", serif'


def colours(theme):
    """Return the palette of `theme`, "light", "dark" or "print"."""
    themes = PALETTE | {"print": PRINT}
    if theme not in themes:
        raise ValueError(f'theme must be "light", "dark" or "print", got {theme!r}')
    return themes[theme]
