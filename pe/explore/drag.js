// Drag in a square plot over [-reach, reach]^2: `move` gets the point under the pointer, `done` follows the last.

export function drag(svg, reach, { move, done }) {
  const tell = ({ clientX, clientY }) => {
    const { left, top, width } = svg.getBoundingClientRect(), k = 2 * reach / width;
    move([(clientX - left) * k - reach, reach - (clientY - top) * k]);
  };
  svg.classList.add("drag");
  svg.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    svg.setPointerCapture(event.pointerId);
    tell(event);
  });
  svg.addEventListener("pointermove", (event) => {
    if (svg.hasPointerCapture(event.pointerId)) tell(event);
  });
  svg.addEventListener("lostpointercapture", done);
}
