// How numbers are written: 4 decimals, 4 significant digits where they are small, and a true minus sign.

export function decimals(value) {
  const size = Math.abs(value);
  const text = size === 0 ? "0.0000" : size >= 1e5 ? size.toExponential(3)
    : size >= 0.01 ? size.toFixed(4) : size.toPrecision(4);
  return (value < 0 ? "\u2212" : "") + text.replace("e+", "e").replace("-", "\u2212");
}

export const plain = (value) => String(value).replace("-", "\u2212");
