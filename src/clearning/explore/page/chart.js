// Charts in SVG: C over h, and what caution picks over the moments of an episode.

import { svg } from "./svg.js";

const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [340, 200, 40, 10, 18, 34];

// A chart's frame: the scales x and y, what is drawn so far, and a line through values at `first`, `first` + 1, …
class Frame {
  constructor(first, last, most) {
    this.x = (step) => LEFT + ((step - first) / Math.max(1, last - first)) * (WIDTH - LEFT - RIGHT);
    this.y = (value) => HEIGHT - BOTTOM - (value / most) * (HEIGHT - TOP - BOTTOM);
    Object.assign(this, { first, parts: [] });
  }

  grid(value, label) {
    this.parts.push(svg("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: this.y(value), y2: this.y(value) }));
    this.text(label, LEFT - 5, this.y(value) + 4, "end");
  }

  along(marks, name) {
    for (const step of marks) this.text(step, this.x(step), HEIGHT - BOTTOM + 14, "middle");
    this.text(name, (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 4, "middle");
  }

  upright(step, kind, to) {
    this.parts.push(svg("line", { class: kind, x1: this.x(step), x2: this.x(step), y1: this.y(0), y2: this.y(to) }));
  }

  line(values, kind) {
    const d = values.map((v, i) => `${i ? "L" : "M"}${this.x(this.first + i).toFixed(1)} ${this.y(v).toFixed(1)}`).join("");
    this.parts.push(svg("path", { class: kind, d }));
  }

  dot(step, value, label) {
    const at = this.x(step);
    this.parts.push(svg("circle", { class: "chosen", cx: at, cy: this.y(value), r: 5 }));
    const end = at > WIDTH - 80 ? "end" : at < LEFT + 40 ? "start" : "middle";
    this.text(label, at, TOP - 6, end, "chosen-text");
  }

  text(content, x, y, anchor, kind = "") {
    const node = svg("text", { x, y, "text-anchor": anchor, class: kind });
    node.textContent = content;
    this.parts.push(node);
  }

  show(node, label) {
    node.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
    node.replaceChildren(...this.parts);
    node.setAttribute("aria-label", label);
  }
}

// The curve of C over h, with the horizon that the agent picks and the one on the slider.
export function drawChart(node, { curve, truth, h, chosen, steered }) {
  const horizons = curve.length;
  const frame = new Frame(1, horizons, 1);
  for (const share of [0, 0.25, 0.5, 0.75, 1]) frame.grid(share, `${100 * share} %`);
  frame.along(ticks(1, horizons), "steps allowed, h");
  frame.upright(h, "now", 1);
  if (truth) frame.line(truth, "true");
  frame.line(curve, "learned");
  const at = Math.min(chosen, horizons);
  frame.upright(at, "chosen-line", curve[at - 1]);
  frame.dot(at, curve[at - 1], `${steered} h = ${chosen}`);
  const told = truth ? `; truly ${percent(truth[h - 1])}` : "";
  frame.show(node, `Within ${h} of ${horizons} steps ${percent(curve[h - 1])}${told}.`);
}

// What caution picks at each moment of an episode, beside the steps that were really left where it arrived.
export function drawCourse(node, { horizons, reached, moment }) {
  const last = horizons.length - 1;
  const left = reached ? horizons.map((_, i) => last - i) : null;
  const most = Math.max(5, ...horizons, last);
  const frame = new Frame(0, last, most);
  for (const value of ticks(0, most, 4)) frame.grid(value, value);
  frame.along(ticks(0, last), "steps taken");
  frame.upright(moment, "now", most);
  if (left) frame.line(left, "true");
  frame.line(horizons, "learned");
  frame.dot(moment, horizons[moment], `enough: ${horizons[moment]}`);
  const really = reached ? `; ${last - moment} were left` : "";
  frame.show(node, `After ${moment} steps caution takes ${horizons[moment]} more to be enough${really}.`);
}

export function percent(share) {
  const value = 100 * share;
  if (value > 0 && value < 0.5) return "under 1 %";
  if (value < 100 && value >= 99.5) return "over 99 %";
  return `${Math.round(value)} %`;
}

export function steps(count) {
  return `${count} ${count === 1 ? "step" : "steps"}`;
}

function ticks(first, last, most = 6) {
  const between = [1, 2, 5, 10, 20, 50, 100].find((step) => last / step <= most) ?? last;
  const marks = [first];
  for (let step = between; step <= last; step += between) if (step > first) marks.push(step);
  return marks;
}
