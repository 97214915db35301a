// Play one key of the state from where it is to its end, one unit a second; for readers who asked their
// system for less motion, a step at a time. No frame is asked for once the figure has left the page.

const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

export function player(button, end, { read, write, say }) {
  let playing = 0;
  function stop() {
    cancelAnimationFrame(playing);
    playing = 0;
    button.textContent = calm() ? "step" : "play";
  }
  function start() {
    const from = read() < end ? read() : 0;
    let since = null;
    const tick = (now) => {
      if (!button.isConnected) return stop();
      since ??= now - from * 1000;
      const value = Math.min(Math.round((now - since) / 10) / 100, end);
      write(value);
      if (value < end) playing = requestAnimationFrame(tick); else { stop(); say(); }
    };
    button.textContent = "pause";
    playing = requestAnimationFrame(tick);
  }
  function press() {
    if (playing) stop();
    else if (!calm()) return start();
    else write(read() < end ? Math.min(Math.round(read() * 10 + 5) / 10, end) : 0);
    say();
  }
  stop();
  return { press, stop };
}
