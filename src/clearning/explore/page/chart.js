// The curve of C over h, with the horizon that the agent picks and the one on the slider.

import { svg } from "./map.js";

const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [340, 200, 40, 10, 18, 34];

export function drawChart(node, { curve, truth, h, chosen, steered }) {
  const horizons = curve.length;
  const x = (step) => LEFT + ((step - 1) / Math.max(1, horizons - 1)) * (WIDTH - LEFT - RIGHT);
  const y = (value) => HEIGHT - BOTTOM - value * (HEIGHT - TOP - BOTTOM);
  const line = (values) => values.map((v, i) => `${i ? "L" : "M"}${x(i + 1).toFixed(1)} ${y(v).toFixed(1)}`).join("");
  const parts = [];
  for (const share of [0, 0.25, 0.5, 0.75, 1]) {
    parts.push(svg("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y(share), y2: y(share) }));
    parts.push(text(`${100 * share} %`, LEFT - 5, y(share) + 4, "end"));
  }
  for (const step of ticks(horizons)) parts.push(text(step, x(step), HEIGHT - BOTTOM + 14, "middle"));
  parts.push(text("steps allowed, h", (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 4, "middle"));
  parts.push(svg("line", { class: "now", x1: x(h), x2: x(h), y1: y(0), y2: y(1) }));
  if (truth) parts.push(svg("path", { class: "true", d: line(truth) }));
  parts.push(svg("path", { class: "learned", d: line(curve) }));
  const at = Math.min(chosen, horizons);
  parts.push(svg("line", { class: "chosen-line", x1: x(at), x2: x(at), y1: y(0), y2: y(curve[at - 1]) }));
  parts.push(svg("circle", { class: "chosen", cx: x(at), cy: y(curve[at - 1]), r: 5 }));
  const end = x(at) > WIDTH - 80 ? "end" : x(at) < LEFT + 40 ? "start" : "middle";
  parts.push(text(`${steered} h = ${chosen}`, x(at), TOP - 6, end, "chosen-text"));
  node.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
  node.replaceChildren(...parts);
  const told = truth ? `; truly ${percent(truth[h - 1])}` : "";
  node.setAttribute("aria-label", `Within ${h} of ${horizons} steps ${percent(curve[h - 1])}${told}.`);
}

export function percent(share) {
  const value = 100 * share;
  if (value > 0 && value < 0.5) return "under 1 %";
  if (value < 100 && value >= 99.5) return "over 99 %";
  return `${Math.round(value)} %`;
}

function ticks(horizons) {
  const between = [1, 2, 5, 10, 20, 50, 100].find((step) => horizons / step <= 6) ?? horizons;
  const steps = [1];
  for (let step = between; step <= horizons; step += between) if (step > 1) steps.push(step);
  return steps;
}

function text(content, x, y, anchor, kind = "") {
  const node = svg("text", { x, y, "text-anchor": anchor, class: kind });
  node.textContent = content;
  return node;
}
